"""SmolVLM's tower (`SmolVLMVisionTransformer`): Idefics 3's."""

from belvedere.families.towers.idefics3_vision import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
