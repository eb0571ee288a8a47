"""Gemma 4's text stack (`Gemma4TextModel`): blocks add a third term and scale the sum; some reuse keys and values."""

from belvedere.components import TEXT_BLOCK, Beside, MixtureBeside, SandwichAttention, SandwichMlp, ScaledLayer

RENAME: dict[str, str] = {}
ENVOYS = {
    **TEXT_BLOCK,
    "layers.*": ScaledLayer,
    "layers.*.self_attn": SandwichAttention,
    "layers.*.mlp": Beside("experts", MixtureBeside, SandwichMlp),
}
