"""GLM-4.5V's text stack (`Glm4vMoeTextModel`): a dense first block, then mixtures beside a shared expert."""

from belvedere.components import TEXT_BLOCK, Having, Mlp, SharedMixture

RENAME = {"gate": "router"}
ENVOYS = {**TEXT_BLOCK, "layers.*.mlp": Having("experts", SharedMixture, Mlp)}
