"""GLM-4.1V (`Glm4vForConditionalGeneration`): hung as Qwen3.5 is; a video's frames have the images' placeholder."""

from dataclasses import replace

from belvedere.families.wrappers.qwen3_5 import WRAPPER as QWEN

WRAPPER = replace(QWEN, video_token="image_token_id")
