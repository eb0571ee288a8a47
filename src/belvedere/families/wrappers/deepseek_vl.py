"""DeepSeek-VL (`DeepseekVLForConditionalGeneration`): SigLIP's tower and a two-layer aligner."""

from belvedere.families.facts import Wrapper

WRAPPER = Wrapper(tower="model.vision_model", projector="model.aligner")
