"""GLM-4.5V's tower (`Glm4vMoeVisionModel`): GLM-4.1V's."""

from belvedere.families.towers.glm4v_vision import ENVOYS, RENAME, ROOT, ROWS

__all__ = ["ENVOYS", "RENAME", "ROOT", "ROWS"]
