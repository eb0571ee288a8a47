"""Qwen2-VL's tower (`Qwen2VisionTransformerPretrainedModel`): packed, one segment per frame, rotary positions alone."""

from belvedere.components import VISION_BLOCK, QwenVisionAttention, RotaryQwenVision
from belvedere.families.facts import Rows


class Qwen2Vision(RotaryQwenVision):
    """The tower of Qwen2-VL, whose config calls its width ``embed_dim``."""

    @property
    def vision_hidden_size(self) -> int:
        """The width of the tower's stream; the config's ``hidden_size`` is the text's."""
        return int(self.config.embed_dim)

    @property
    def intermediate_size(self) -> int:
        """The inner width of each block's MLP."""
        return int(self.config.embed_dim * self.config.mlp_ratio)


RENAME = {"blocks": "layers", "attn": "self_attn", "norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
ENVOYS = {**VISION_BLOCK, "layers.*.self_attn": QwenVisionAttention}
ROOT = Qwen2Vision
ROWS = Rows(packed=True, order="merge blocks")
