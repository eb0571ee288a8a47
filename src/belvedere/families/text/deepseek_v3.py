"""DeepSeek-V3 (`DeepseekV3Model`): keys and values out of a latent; after a few dense blocks, routed experts."""

from belvedere.components import TEXT_BLOCK, Having, LatentAttention, Mlp, SharedMixture

RENAME = {"gate": "router"}
ENVOYS = {
    **TEXT_BLOCK,
    "layers.*.self_attn": LatentAttention,
    "layers.*.mlp": Having("experts", SharedMixture, Mlp),
}
