"""Every image-text-to-text type of transformers is on the shelf of wrappers, or declined with the reason."""

import pickle

import pytest

from belvedere import StandardizedTransformer, UnsupportedFamily, families


def mapping():
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return set(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)


def test_wrappers_and_declined_types_are_transformers_whole_mapping():
    assert set(families._files("wrappers")) | set(families.DECLINED) == mapping()


def test_no_type_is_both_described_and_declined():
    assert not families._files("wrappers") & set(families.DECLINED)


def test_a_cause_is_a_clause():
    for name, cause in families.DECLINED.items():
        assert len(cause) > 20, name
        assert not cause.endswith("."), name


def test_a_declined_type_is_refused_with_its_cause_before_anything_is_built():
    from transformers import IdeficsConfig

    with pytest.raises(UnsupportedFamily, match="attend to the picture across") as raised:
        StandardizedTransformer.from_config(IdeficsConfig())
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
