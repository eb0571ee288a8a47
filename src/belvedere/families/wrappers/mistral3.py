"""Mistral 3 (`Mistral3ForConditionalGeneration`): a patch merger inside the projector."""

from belvedere.families.facts import Wrapper, folded

WRAPPER = Wrapper(tokens=folded, merged="patch_merger.merging_layer")
