"""SmolVLM (`SmolVLMForConditionalGeneration`): Idefics 3's parts; the features are scattered in the model's forward."""

from belvedere.families.facts import Wrapper, shuffled
from belvedere.families.runs import by_last_tag

WRAPPER = Wrapper(
    text="model.text_model",
    tower="model.vision_model",
    projector="model.connector",
    tiled=by_last_tag(shuffled("scale_factor")),
    merged="modality_projection.proj",
)
