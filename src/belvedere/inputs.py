"""What a trace is given, made into what the model takes; and a refusal that says what to pass where it cannot be.

An invoke is text with pictures, chat messages, token ids, or an encoding. Text and messages go through the checkpoint's
processor (its tokenizer, for a text model). Encodings of several invokes are padded into one forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from nnsight.modeling import processing

from belvedere.errors import InputError
from belvedere.pictures import Pictures, described, open_picture

if TYPE_CHECKING:
    from belvedere.standardized import StandardizedTransformer

__all__ = ["PIXELS", "Invoke", "assemble", "encode", "filled", "show"]

ACCEPTED = (
    "a prompt (`trace(prompt, images=[picture])`), chat messages, token ids, or an encoding (`trace(**encoding)`)"
)
#: Per-token fields that are padded beside ``input_ids``, with what they are padded with.
PER_TOKEN = {"attention_mask": 0, "mm_token_type_ids": 0, "token_type_ids": 0, "position_ids": 0, "labels": -100}
#: Fields of pixels, and those that say which of them are a picture and which are padding.
PIXELS = frozenset({"pixel_values", "pixel_attention_mask"})
REAL_PIXELS = frozenset({"image_sizes", "pixel_attention_mask", "spatial_shapes"})
#: Types that a tower of another one does not take.
HALF = frozenset({torch.bfloat16, torch.float16})
#: Fields with an axis of positions that is not their last, padded with zeros.
BY_POSITION = frozenset({"cross_attention_mask"})
MEDIA = frozenset({"images", "videos", "text"})
#: What people write for `images`.
MISSPELT = frozenset({"image", "img", "imgs", "picture", "pictures"})


@dataclass
class Invoke:
    """One invoke's encoding, what goes to the forward beside it, and its pictures with their sizes, where known."""

    encoding: dict[str, Any]
    forward: dict[str, Any] = field(default_factory=dict)
    padded: bool = False
    sizes: tuple[tuple[int, int], ...] | None = None
    pictures: tuple[Any, ...] = ()


def assemble(
    model: StandardizedTransformer, invokes: Sequence[tuple[tuple[Any, ...], dict[str, Any]]], fn: Any
) -> tuple[tuple[Any, ...], dict[str, Any], list[Pictures], list[Invoke]]:
    """Every invoke of a trace, as the arguments of one forward, with each invoke's pictures and own encoding.

    Raises:
        InputError: An invoke is none of the accepted forms, or its pictures and its text do not fit.
    """
    if getattr(fn, "__name__", None) == "pipe":
        # A pipeline encodes its own input, so what it will show is not known here.
        args, kwargs = processing.batch_pipe(invokes)
        return args, kwargs, [Pictures(unknown=True) for _ in invokes], [Invoke({}) for _ in invokes]
    _refuse_generate(model, fn)
    encoded = [encode(model, given[0] if given else None, keywords) for given, keywords in invokes]
    pictures = [model.pictures({**one.encoding, **one.forward}) for one in encoded]
    if len(encoded) > 1 and any(shown.videos for shown in pictures):
        raise InputError("several invokes in one trace can show pictures but not videos; trace each video on its own")
    if len(encoded) > 1 and any("input_features" in {**one.encoding, **one.forward} for one in encoded):
        raise InputError("several invokes in one trace can show pictures but not sounds; trace each sound on its own")
    _refuse_together(model, encoded, pictures)
    forward = {key: given for one in encoded for key, given in one.forward.items()}
    encoding = encoded[0].encoding if len(encoded) == 1 else _collate(model, [one.encoding for one in encoded])
    if len(encoded) > 1 or encoded[0].padded:
        _supply_positions(model, encoding)
    return (), {**_defaults(model, fn), **encoding, **forward}, pictures, encoded


def _defaults(model: StandardizedTransformer, fn: Any) -> Mapping[str, Any]:
    """What the model's forward is called with unless a user says otherwise."""
    given = {} if model.family.wrapper is None or model.text_only else model.family.facts.forward
    # The name of a model is its whole tree, so it is only asked for where there is something to give.
    return given if given and "generate" not in getattr(fn, "__name__", str(fn)) else {}


def _refuse_generate(model: StandardizedTransformer, fn: Any) -> None:
    """A model whose own ``generate`` does not run."""
    reason = "" if model.family.wrapper is None or model.text_only else model.family.facts.no_generate
    if reason and "generate" in getattr(fn, "__name__", str(fn)):
        raise InputError(
            f"{model.family.wrapper} cannot generate: {reason}; trace the prompt and append the likeliest token, "
            "token by token"
        )


def _refuse_together(model: StandardizedTransformer, encoded: list[Invoke], pictures: list[Pictures]) -> None:
    """Several invokes, where the prompts of one forward must have as many pictures and one does not."""
    if not any(shown.count for shown in pictures) or model.family.wrapper is None or not model.family.facts.by_prompt:
        return
    kinds = {
        (tuple(one.encoding["pixel_values"].shape[1:]) if shown.count else (), *(BY_POSITION & one.encoding.keys()))
        for one, shown in zip(encoded, pictures, strict=True)
    }
    if len(kinds) > 1:
        raise InputError(
            f"{model.family.wrapper} takes prompts with as many pictures together, and those of this trace differ; "
            "use one invoke per trace"
        )


def encode(model: StandardizedTransformer, data: Any, keywords: Mapping[str, Any]) -> Invoke:
    """One invoke's model inputs.

    Raises:
        InputError: The invoke is none of the accepted forms, or its pictures and its text do not fit.
    """
    misspelt = next((key for key in keywords if key in MISSPELT), None)
    if misspelt is not None:
        raise InputError(f"`{misspelt}=` is no input of this model; pass pictures as `images=[...]`")
    media = {key: given for key, given in keywords.items() if key in MEDIA and given is not None}
    forward = {key: given for key, given in keywords.items() if key not in MEDIA}
    if data is None and "text" in media:
        data = media.pop("text")
    if "text" in media:
        raise InputError("the prompt came both by position and as `text=`; pass it once")
    given = None if media else _as_encoding(model, data, forward)
    if given is not None:
        return given
    if data is None:
        raise InputError(f"pictures came without a prompt; pass {ACCEPTED}")
    chats = processing.as_chats(data)
    if chats is not None:
        return _encode_chats(model, [chat.messages for chat in chats], media, forward)
    if isinstance(data, str) or (isinstance(data, (list, tuple)) and data and all(isinstance(d, str) for d in data)):
        return _encode_text(model, [data] if isinstance(data, str) else list(data), media, forward)
    raise InputError(f"{described(data)} is no input of this model; pass {ACCEPTED}")


def show(model: StandardizedTransformer, pictures: list[Any]) -> dict[str, Any]:
    """An encoding of pictures in a prompt of nothing else.

    Raises:
        InputError: There is no processor, or one of them is no picture.
    """
    token = getattr(_preprocessor(model, "pictures"), "image_token", None)
    if token is None:
        raise InputError("this model's processor names no image token; pass an encoding (`**encoding`)")
    return _encode_text(model, [token * len(pictures)], {"images": pictures}, {}).encoding


def _as_encoding(model: StandardizedTransformer, data: Any, forward: dict[str, Any]) -> Invoke | None:
    """The invoke, if it is written in model inputs: an encoding, token ids, or their keywords."""
    if isinstance(data, Mapping) and not any(isinstance(entry, torch.Tensor) for entry in data.values()):
        raise InputError(f"a mapping without tensors is no encoding; pass {ACCEPTED}")
    encoding = processing.as_encoding(data, forward)
    if encoding is None:
        return None
    if processing.input_key(encoding) is None:
        raise InputError(f"the encoding has neither `input_ids` nor `inputs_embeds`; it has {', '.join(encoding)}")
    if not processing.has_nontext_keys(encoding):
        rows, rest = processing.encode_pretokenized(encoding)
        batch = processing.collate(model, rows)
        processing.supply_position_ids(model, batch)
        encoding = {**batch, **rest}
    if encoding.get("input_ids") is not None:
        _refuse_empty(encoding["input_ids"])
        _refuse_mismatch(model, encoding)
    return Invoke(dict(encoding))


def _encode_chats(
    model: StandardizedTransformer, chats: list[list[dict[str, Any]]], media: dict[str, Any], forward: dict[str, Any]
) -> Invoke:
    """Chat messages through the checkpoint's own template, their pictures in order."""
    template = _preprocessor(model, "chat messages")
    texts = [template.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in chats]
    shown = [picture for chat in chats for picture in _pictures_of(chat)]
    if shown and "images" in media:
        raise InputError("pictures came both inside the messages and as `images=`; pass them once")
    if shown:
        media = {**media, "images": shown}
    bos = getattr(model.tokenizer, "bos_token", None)
    # A template that spells the first token itself must not get a second one; else the processor decides.
    options = {"add_special_tokens": False} if bos and texts[0].startswith(bos) else {}
    return _encode_text(model, texts, media, forward, **options)


def _pictures_of(chat: list[dict[str, Any]]) -> Iterator[Any]:
    for message in chat:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") == "image":
                held = next((part[key] for key in ("image", "path", "url") if part.get(key) is not None), None)
                if held is not None:
                    yield held


def _encode_text(
    model: StandardizedTransformer,
    texts: list[str],
    media: dict[str, Any],
    forward: dict[str, Any],
    **options: Any,
) -> Invoke:
    preprocessor = _preprocessor(model, "pictures" if media.get("images") is not None else "text")
    if any(not text for text in texts):
        raise InputError("the prompt is empty; pass some text, chat messages or token ids")
    call: dict[str, Any] = {"text": texts, "return_tensors": "pt", "padding": len(texts) > 1, **options}
    pictures = [open_picture(given, number) for number, given in enumerate(_flat(media.get("images")))]
    _refuse_wrong_count(model, texts, pictures)
    if pictures:
        call["images"] = _nested(model, texts, pictures)
    if media.get("videos") is not None:
        call["videos"] = media["videos"]
    try:
        encoding = dict(preprocessor(**call))
    except ValueError as error:
        raise InputError(f"the processor refused this input: {error}") from error
    tensors = {key: _as_weights(model, key, held) for key, held in encoding.items() if isinstance(held, torch.Tensor)}
    _refuse_empty(tensors["input_ids"])
    sizes = tuple(picture.size for picture in pictures)
    return Invoke(tensors, forward, padded=len(texts) > 1, sizes=sizes or None, pictures=tuple(pictures))


def _as_weights(model: StandardizedTransformer, key: str, held: torch.Tensor) -> torch.Tensor:
    """Pixels that a processor rounds to half precision (Llama 4's) in the tower's own; all else as it is."""
    if key not in PIXELS or held.dtype not in HALF:
        return held
    return held.to(next(model.vision._module.parameters()).dtype)


def _preprocessor(model: StandardizedTransformer, what: str) -> Any:
    processor = model.processor
    if processor is None and what == "pictures":
        why = model.vision.no_images() if model.family.tower is None or model.text_only else None
        if why:
            raise InputError(f"a picture cannot be shown to this model: {why}")
        raise InputError(
            "this model was loaded without a processor, so a picture cannot be encoded; "
            "pass `processor=` when you load it, or trace an encoding (`trace(**encoding)`)"
        )
    found = processor or model.tokenizer
    if found is None:
        raise InputError(
            f"this model was loaded without a processor, so {what} cannot be encoded; "
            "pass `processor=` when you load it, or trace an encoding (`trace(**encoding)`)"
        )
    return found


def _flat(images: Any) -> list[Any]:
    """The pictures in order, however they are nested by prompt."""
    if images is None:
        return []
    if not isinstance(images, (list, tuple)):
        return [images]
    return [one for entry in images for one in (_flat(entry) if isinstance(entry, (list, tuple)) else [entry])]


def _nested(model: StandardizedTransformer, texts: list[str], pictures: list[Any]) -> list[list[Any]]:
    """Each prompt's own pictures, dealt out by its placeholders."""
    token = getattr(model.processor, "image_token", None)
    if token is None:
        return [pictures]
    rest = iter(pictures)
    return [[next(rest) for _ in range(text.count(token))] for text in texts]


def _refuse_wrong_count(model: StandardizedTransformer, texts: list[str], pictures: list[Any]) -> None:
    token = getattr(model.processor, "image_token", None)
    if token is None:
        return
    places = sum(text.count(token) for text in texts)
    if places == len(pictures):
        return
    if not pictures:
        raise InputError(f"the prompt has {places} placeholder(s) {token!r} and no picture; pass `images=[...]`")
    if not places:
        raise InputError(
            f"{len(pictures)} picture(s) and no placeholder in the prompt; write {token!r} where each one goes, "
            "or pass chat messages"
        )
    raise InputError(f"the prompt has {places} placeholder(s) {token!r}, and `images` has {len(pictures)}; match them")


def _refuse_empty(ids: torch.Tensor) -> None:
    if torch.as_tensor(ids).numel() == 0:
        raise InputError("the prompt is empty; pass some text, chat messages or token ids")


def _refuse_mismatch(model: StandardizedTransformer, encoding: Mapping[str, Any]) -> None:
    """A prompt cut off inside a picture is refused here, and not by the model half way through."""
    token, shown = model.placeholder("image"), model.pictures(encoding)
    if token is None or not shown.count or not shown.tokens:
        return
    places = shown.placeholders
    if places != sum(shown.tokens):
        raise InputError(
            f"the prompt has {places} image token(s) and the picture(s) have {sum(shown.tokens)}; "
            "was it truncated inside a picture?"
        )


def _collate(model: StandardizedTransformer, encodings: list[dict[str, Any]]) -> dict[str, Any]:
    """Several encodings as one: rows padded on the left, pictures one after the other."""
    left = getattr(model.tokenizer, "padding_side", "left") != "right"
    if any("input_ids" not in encoding for encoding in encodings):
        raise InputError("several invokes in one trace are padded as token ids; trace `inputs_embeds` on its own")
    width = max(encoding["input_ids"].shape[1] for encoding in encodings)
    padding = {"input_ids": getattr(model.tokenizer, "pad_token_id", None) or 0, **PER_TOKEN}
    batch: dict[str, Any] = {}
    # Padding without a mask would be attended to.
    for key in dict.fromkeys([*(key for encoding in encodings for key in encoding), "attention_mask"]):
        held = [_with_default(model, encoding, key) for encoding in encodings]
        present = [entry for entry in held if entry is not None]
        if key in padding:
            present = [_padded(entry, width, padding[key], left) for entry in present]
        if key in PIXELS and REAL_PIXELS.intersection(*(encoding for encoding in encodings if key in encoding)):
            present = _stacked(present)
        if key in BY_POSITION:
            present = [_padded(entry.transpose(1, -1), width, 0, left).transpose(1, -1) for entry in present]
        # Three-dimensional rotary positions have their axes before the batch.
        axis = 1 if key == "position_ids" and present[0].ndim == 3 else 0
        batch[key] = torch.cat(present, dim=axis) if isinstance(present[0], torch.Tensor) else present[0]
    return batch


def _with_default(model: StandardizedTransformer, encoding: dict[str, Any], key: str) -> Any:
    """An encoding's field; where a row leaves it out, zeros for token types, ones for its mask, its own positions."""
    if key in encoding or key not in PER_TOKEN:
        return encoding.get(key)
    if key == "position_ids":
        mask = encoding.get("attention_mask", torch.ones_like(encoding["input_ids"]))
        return processing.positions(mask) + _first_position(model)
    fill = torch.ones_like if key == "attention_mask" else torch.zeros_like
    return fill(encoding["input_ids"])


def _padded(rows: torch.Tensor, width: int, fill: int, left: bool) -> torch.Tensor:
    missing = width - rows.shape[-1]
    return torch.nn.functional.pad(rows, (missing, 0) if left else (0, missing), value=fill)


def _stacked(pixels: list[torch.Tensor]) -> list[torch.Tensor]:
    """Pixels of several invokes as large as the largest, with zeros behind each picture, tile and stack."""
    if len({held.ndim for held in pixels}) > 1:
        return pixels
    shape = [max(sizes) for sizes in zip(*(held.shape[1:] for held in pixels), strict=True)]
    return [filled(held, shape) for held in pixels]


def filled(pixels: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Pixels with zeros behind, up to a shape whose first axis is theirs."""
    ends = [
        side for own, size in zip(reversed(pixels.shape), reversed(shape), strict=False) for side in (0, size - own)
    ]
    return torch.nn.functional.pad(pixels, ends) if any(ends) else pixels


def _supply_positions(model: StandardizedTransformer, encoding: dict[str, Any]) -> None:
    """Count each padded row from its own first token, unless the model derives positions from the token types."""
    mask = encoding.get("attention_mask")
    if mask is None or bool(mask.all()) or "position_ids" in encoding:
        return
    if model.family.wrapper is not None and model.family.facts.counts_positions:
        return
    if "mm_token_type_ids" in encoding and hasattr(model.get(model.family.facts.inner)._module, "get_rope_index"):
        return
    encoding["position_ids"] = processing.positions(mask) + _first_position(model)


def _first_position(model: StandardizedTransformer) -> int:
    """The position that the model gives a prompt's first token."""
    return 0 if model.family.wrapper is None else model.family.facts.first_position
