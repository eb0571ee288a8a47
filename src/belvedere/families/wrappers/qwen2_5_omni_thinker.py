"""Qwen2.5-Omni's thinker (`Qwen2_5OmniThinkerForConditionalGeneration`): sounds enter before images and videos."""

from dataclasses import replace

from belvedere.components import SoundFirstScatter
from belvedere.families.wrappers.qwen3_5 import WRAPPER as QWEN

WRAPPER = replace(QWEN, scatter=SoundFirstScatter, counts_positions=True)
