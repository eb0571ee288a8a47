"""The demo's report: one page that needs nothing beside itself, and the pictures and tensors that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from belvedere.report.page import inlined, page, png
from belvedere.report.story import Finding, Story
from belvedere.report.versions import versions

__all__ = ["write"]


def write(story: Story, folder: Path) -> Path:
    """Write a story: ``report.html``, its pictures as PNG, and its effects as safetensors.

    Args:
        story: What `tell` found.
        folder: Where to; made if it is not there. Files of the same names are replaced.

    Returns:
        The page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = _pictures(story)
    for name, held in pictures.items():
        (folder / f"{name}.png").write_bytes(held)
    story.tower.result.save(folder / "tower.safetensors")
    story.text.result.save(folder / "text.safetensors")
    written = folder / "report.html"
    shown = {name: inlined(held) for name, held in pictures.items()}
    written.write_text(
        page(
            "demo.html.j2",
            title=f"Where {story.checkpoint} holds the answer",
            story=story,
            shown=shown,
            settings=_settings(story),
            versions=versions("matplotlib"),
            matrix=story.matrix,
        ),
        encoding="utf-8",
    )
    return written


def _pictures(story: Story) -> dict[str, bytes]:
    from belvedere import plot

    case = story.case
    return {
        "clean": png(plot.picture(case.picture, title="clean", outline=case.changed)),
        "corrupt": png(plot.picture(case.corrupt_picture, title="corrupt", outline=case.changed)),
        "tower": _strips(story, story.tower),
        "text": _strips(story, story.text),
    }


def _strips(story: Story, finding: Finding) -> bytes:
    return png(finding.result.overlay(story.case.picture, finding.boxes, outline=story.case.changed))


def _settings(story: Story) -> Mapping[str, str]:
    return {
        "checkpoint": story.checkpoint,
        "metric": story.case.measured,
        "clean run": f"{story.tower.result.clean:.4f}",
        "corrupt run": f"{story.tower.result.corrupt:.4f}",
        "tower sweep": story.tower.result.value,
        "text sweep": story.text.result.value,
        "cells per forward": str(story.tower.result.settings["batch_cells"]),
        **story.case.settings,
    }
