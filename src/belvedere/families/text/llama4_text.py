"""Llama 4's text stack (`Llama4TextModel`): chunked attention in most blocks, in some a mixture that scales inputs."""

from belvedere.components import TEXT_BLOCK, DenseMixture, Having, Mlp

RENAME = {"feed_forward": "mlp"}
ENVOYS = {**TEXT_BLOCK, "layers.*.mlp": Having("experts", DenseMixture, Mlp)}
