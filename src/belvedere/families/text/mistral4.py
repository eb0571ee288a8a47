"""Mistral 4 (`Mistral4Model`): a token's keys and values come out of one latent; a mixture with a shared expert."""

from belvedere.components import TEXT_BLOCK, Having, LatentAttention, Mlp, SharedMixture

RENAME = {"gate": "router"}
ENVOYS = {
    **TEXT_BLOCK,
    "layers.*.self_attn": LatentAttention,
    "layers.*.mlp": Having("experts", SharedMixture, Mlp),
}
