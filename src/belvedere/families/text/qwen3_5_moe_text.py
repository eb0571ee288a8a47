"""Qwen3.5-MoE's text stack (`Qwen3_5MoeTextModel`): Qwen3.5's, each block a mixture beside a gated shared expert."""

from belvedere.components import GatedSharedMixture
from belvedere.families.text.qwen3_5_text import ENVOYS as QWEN3_5

RENAME = {"gate": "router"}
ENVOYS = {**QWEN3_5, "layers.*.mlp": GatedSharedMixture}
