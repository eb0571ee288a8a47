"""Each component says through which of its values a picture enters the text model, and has those values."""

import pytest

from belvedere import components
from belvedere.components import Standard

HOSTS = [held for held in vars(components).values() if isinstance(held, type) and issubclass(held, Standard)]


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)
def test_what_a_picture_enters_by_is_a_value_with_a_place(host):
    for name in host.ENTERS:
        assert host.values()[name].at != ""


def test_the_kinds_of_entries():
    assert components.Vision.ENTERS == ("image_features",)
    assert components.CrossAttention.ENTERS == ("attention_output",)
    assert components.DeepstackLayer.ENTERS == ("deepstack_output",)
    assert components.AttendedVision.ENTERS == ()
    assert components.Layer.ENTERS == ()
