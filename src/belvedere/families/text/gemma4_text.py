"""Gemma 4's text stack (`Gemma4TextModel`): blocks add a third term and scale the sum; some reuse keys and values."""

from belvedere.components import TEXT_BLOCK, Beside, MixtureBeside, Mlp, ScaledLayer

RENAME: dict[str, str] = {}
ENVOYS = {
    **TEXT_BLOCK,
    "layers.*": ScaledLayer,
    "layers.*.mlp": Beside("experts", MixtureBeside, Mlp),
}
