"""GLM-OCR's text stack (`GlmOcrTextModel`): GLM-4.1V's."""

from belvedere.families.text.glm4v_text import ENVOYS, RENAME

__all__ = ["ENVOYS", "RENAME"]
