"""Where the parts of a checkpoint hang, and what stands there: the root's names, and the envoys of its stacks."""

from __future__ import annotations

from typing import Any

__all__ = ["mounts"]

LIFTED = ("embed_tokens", "layers", "norm")


def mounts(family: Any, text_only: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """The standard names of the root by native path, and the envoys of its stacks by the path from the root.

    Args:
        family: The checkpoint's `Family`.
        text_only: Whether only a wrapper's text model is loaded.
    """
    if family.wrapper is None or text_only:
        stack = getattr(family.entry("text"), "STACK", "model")
        return {f"{stack}.{name}": name for name in LIFTED}, {f"model.{stack}": family.text_envoy}
    facts = family.facts
    names = {f"{facts.text}.{name}": name for name in LIFTED}
    if family.tower is None:
        return names, {f"model.{facts.text}": family.text_envoy}
    names[facts.tower] = "vision"
    if facts.projector is not None:
        names[facts.projector] = "projector"
    if facts.lm_head != "lm_head":
        names[facts.lm_head] = "lm_head"
    envoys = {f"model.{facts.text}": family.text_envoy, f"model.{facts.tower}": family.tower_envoy}
    if facts.scatter is not None and facts.inner:
        envoys[f"model.{facts.inner}"] = facts.scatter
    return names, envoys
