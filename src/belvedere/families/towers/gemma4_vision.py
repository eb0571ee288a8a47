"""Gemma 4's tower (`Gemma4VisionModel`): pictures padded to one length, norms around each part, a pooler at its end."""

from belvedere.components import PatchEmbedder, PooledVision, SandwichVisionAttention, SandwichVisionMlp, VisionLayer

RENAME = {"patch_embedder.input_proj": "patch_embed", "encoder.layers": "layers"}
ENVOYS = {
    "patch_embedder": PatchEmbedder,
    "layers.*": VisionLayer,
    "layers.*.self_attn": SandwichVisionAttention,
    "layers.*.mlp": SandwichVisionMlp,
}
ROOT = PooledVision
