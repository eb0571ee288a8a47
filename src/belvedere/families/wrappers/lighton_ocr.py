"""LightOnOCR (`LightOnOcrForConditionalGeneration`): Pixtral's tower and Mistral 3's merging projector."""

from belvedere.families.facts import Wrapper, folded

WRAPPER = Wrapper(
    tower="model.vision_encoder",
    projector="model.vision_projection",
    tokens=folded,
    merged="patch_merger.merging_layer",
)
