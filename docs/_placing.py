"""The table of the page "Where is this patch?": how a picture comes to rows and tokens, read off layouts."""

from __future__ import annotations

from functools import cache

import torch
from _pictures import placed

from belvedere import families
from belvedere.geometry import PatchLayout
from belvedere.testing import ROWS

#: How far the two scales of a picture may be apart through rounding alone.
ROUNDED = 1.2


@cache
def towers() -> list[tuple[str, families.Rows, str, list[str], str, str]]:
    """Each tower with its rows, what is padded, its wrappers, what a token is made of, and how the picture gets there.

    A tower stands once for each of the ways that its wrappers have.
    """
    found = []
    for tower in families.known("towers"):
        ways: dict[tuple[str, str, str], list[str]] = {}
        for name, row in ROWS.items():
            family = families.compose(row.config())
            if row.tower and family.tower == tower:
                _, layout = placed(name)
                wrappers = ways.setdefault((_padding(layout), _token(layout), _picture(layout)), [])
                wrappers += [family.wrapper] if family.wrapper not in wrappers else []
                rows = family.rows
        found += [(tower, rows, padding, names, token, way) for (padding, token, way), names in ways.items()]
    return found


def _padding(layout: PatchLayout) -> str:
    return "padding behind them" if bool(layout.patches.of_kind("padding").any()) else ""


def _token(layout: PatchLayout) -> str:
    """What an image token is made of."""
    if not len(layout.tokens):
        return "no token: text blocks attend to the rows"
    if bool(layout.mixed.any()):
        return "all patches"
    counts = torch.bincount(layout.links[:, 0], minlength=len(layout.tokens))
    shown = layout.tokens.of_kind("patch")
    made = f"{int(counts[shown].max())} patches".replace("1 patches", "1 patch")
    return made + (", a newline after each line" if bool(layout.tokens.of_kind("newline").any()) else "")


def _picture(layout: PatchLayout) -> str:
    """What happens to a picture on its way to the tower."""
    kinds = [region.part for region in layout.regions]
    patches, whole = layout.patches, kinds.index("picture")
    own = patches.region.eq(whole)
    tiles = len(patches.piece[own].unique())
    return ", ".join(
        [
            _scaled(layout, own),
            *(["cut into tiles"] if tiles > 1 else []),
            *(["a thumbnail beside them"] if "thumbnail" in kinds else []),
        ]
    )


def _scaled(layout: PatchLayout, own: torch.Tensor) -> str:
    boxes = layout.patches.source_box[own]
    width, height = layout.sizes[0]
    sides = boxes[0, 2:] - boxes[0, :2]
    seen = layout.patches.box[own][0]
    across, down = ((seen[2:] - seen[:2]) / sides).tolist()
    left, top, right, bottom = [*boxes[:, :2].amin(0).tolist(), *boxes[:, 2:].amax(0).tolist()]
    if left > 0.5 or top > 0.5 or right < width - 0.5 or bottom < height - 0.5:
        return "scaled, its middle cut out"
    if left < -0.5 or top < -0.5 or right > width + 0.5 or bottom > height + 0.5:
        return "scaled, padded"
    return "stretched" if max(across / down, down / across) > ROUNDED else "scaled"
