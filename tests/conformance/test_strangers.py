"""What someone who has only read the README gets wrong, and what is said."""

import pytest
import torch
from nnsight.intervention.interleaver import OutOfOrderError

from belvedere import InputError, WriteError


def test_a_mistyped_write_is_refused_and_does_not_vanish(llava):
    with pytest.raises(AttributeError, match="no value 'layer_outptu' to write; did you mean 'layer_output'"):
        with llava.model.trace(**llava.inputs):
            llava.model.layers[0].layer_outptu = torch.zeros(1)


def test_a_read_that_comes_too_late_names_the_value(llava):
    with pytest.raises(
        OutOfOrderError, match=r"^vision.image_features was asked for when the model had already passed"
    ):
        with llava.model.trace(**llava.inputs):
            llava.model.logits.save()
            llava.model.vision.image_features.save()


@pytest.mark.parametrize("name", ["image", "picture"])
def test_a_misspelt_keyword_names_the_right_one(llava, name):
    with pytest.raises(InputError, match=f"`{name}=` is no input of this model; pass pictures as `images="):
        with llava.model.trace("what is it", **{name: [1]}):
            llava.model.logits.save()


def test_a_block_that_is_not_there_is_named(llava):
    with pytest.raises(ValueError, match="no block 9; the text model has 3, 0 to 2"):
        llava.model.support(layer=9)
    with pytest.raises(WriteError, match="no block 17 to steer"), llava.model.trace(**llava.inputs):
        llava.model.steer(17, torch.zeros(32))


def test_a_vector_of_another_width_is_refused(llava):
    with pytest.raises(WriteError, match="vector of 5 cannot be added to a stream of 32"):
        with llava.model.trace(**llava.inputs):
            llava.model.steer(1, torch.zeros(5))
