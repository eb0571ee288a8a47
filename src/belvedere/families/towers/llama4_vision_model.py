"""Llama 4's tower (`Llama4VisionModel`): CLS last, blocks that return tuples, a pixel shuffle at its end."""

from belvedere.components import VISION_BLOCK, TurnedVision
from belvedere.families.facts import Rows

RENAME = {
    "patch_embedding": "patch_embed",
    "model.layers": "layers",
    "layernorm_post": "norm",
}
ENVOYS = VISION_BLOCK
ROOT = TurnedVision
ROWS = Rows(after=1)
