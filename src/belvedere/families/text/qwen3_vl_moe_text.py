"""Qwen3-VL-MoE's text stack (`Qwen3VLMoeTextModel`): Qwen3-VL's, with mixtures of experts in most blocks."""

from belvedere.components import DeepstackText, Having, Mixture, Mlp
from belvedere.families.text.qwen3_vl_text import ENVOYS as QWEN3_VL

RENAME = {"gate": "router"}
ENVOYS = {**QWEN3_VL, "layers.*.mlp": Having("experts", Mixture, Mlp)}
ROOT = DeepstackText
