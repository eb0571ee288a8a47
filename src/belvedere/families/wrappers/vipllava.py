"""VipLLaVA (`VipLlavaForConditionalGeneration`): several tower blocks side by side through a normed projector."""

from belvedere.families.facts import Wrapper

WRAPPER = Wrapper()
