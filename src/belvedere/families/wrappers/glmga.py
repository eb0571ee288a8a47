"""GLM-GA, loaded as `Glm46VForConditionalGeneration`: hung as GLM-4.1V is."""

from belvedere.families.wrappers.glm4v import WRAPPER

__all__ = ["WRAPPER"]
