"""Scenes: small pictures of coloured shapes, a question about them, and the answer that is true by construction.

A scene is drawn from a seed. Its picture is a grid of image tokens (8 pixels for the LLaVA checkpoint, 16 for the
Qwen3.5 one); every object lies on a square of two by two tokens with jitter, and no two objects share a token or one
of the nine places that questions name. A question is only asked where exactly one answer is right, and with two
pictures only where the other picture would give another answer.

`pair` gives what activation patching needs: two scenes with the same question whose pictures differ inside the box of
one object, and whose answers therefore differ.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from PIL import Image

from belvedere.shapes import drawing
from belvedere.shapes.drawing import Box, Color
from belvedere.shapes.vocabulary import (
    COLORS,
    KINDS,
    ORDINALS,
    PLACES,
    QUESTIONS,
    SHAPES,
    SIZES,
    TWO_IMAGE_KINDS,
    style_of,
)
from belvedere.spelling import did_you_mean

HELD_OUT = range(1_000_000)
"""The seeds that training never draws."""

_SPAN = 2  # an object's side in tokens
_SIDES = {"small": (0.58, 0.66), "large": (0.92, 1.0)}  # of the span
_COVER = 0.375  # of a token, the least that an object covers along each axis
_MARGIN = 0.05  # of the picture, kept between an object's centre and the border of its place


@dataclass(frozen=True, kw_only=True)
class Object:
    """One coloured shape: what it is, where it is in words, and its box in pixels (left, top, right, bottom)."""

    shape: str
    color: str
    size: str
    position: str
    box: Box
    rgb: Color


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One image of a scene, as the facts that it is drawn from."""

    size: tuple[int, int]
    ground: Color
    seed: int
    objects: tuple[Object, ...]

    @cached_property
    def image(self) -> Image.Image:
        """The pixels."""
        image = drawing.ground(self.size, self.ground, self.seed)
        for item in self.objects:
            drawing.paint(image, item.shape, item.rgb, item.box)
        return image


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One or two pictures, a question about one object, and its answer.

    `asked` is the index of the picture that the question is about, `subject` the object; `changed` is the box in which
    the two scenes of a pair differ.
    """

    checkpoint: str
    kind: str
    question: str
    answer: str
    pictures: tuple[Picture, ...]
    asked: int
    subject: Object
    changed: Box | None = None

    @property
    def images(self) -> list[Image.Image]:
        """Every picture's pixels, in the order of the prompt."""
        return [picture.image for picture in self.pictures]

    @property
    def image(self) -> Image.Image:
        """The pixels of the picture that the question is about."""
        return self.pictures[self.asked].image

    @property
    def objects(self) -> tuple[Object, ...]:
        """The objects of the picture that the question is about."""
        return self.pictures[self.asked].objects

    @property
    def prompt(self) -> str:
        """The text for `processor(text=scene.prompt, images=scene.images)`."""
        style = style_of(self.checkpoint)
        return style.prompt.format(images=style.image * len(self.pictures), question=self.question)

    def messages(self) -> list[dict[str, Any]]:
        """The same question as a chat, for `processor.apply_chat_template`."""
        images: list[dict[str, Any]] = [{"type": "image", "image": image} for image in self.images]
        return [{"role": "user", "content": [*images, {"type": "text", "text": self.question}]}]

    def tokens_under(self, box: Box) -> list[int]:
        """The rows of `image_features` whose pixels overlap the box in the picture that the question is about."""
        side = style_of(self.checkpoint).token_side
        grids = [(width // side, height // side) for width, height in (picture.size for picture in self.pictures)]
        before = sum(columns * rows for columns, rows in grids[: self.asked])
        left, top, right, bottom = box
        return [
            before + row * grids[self.asked][0] + column
            for row in range(top // side, -(-bottom // side))
            for column in range(left // side, -(-right // side))
        ]


@dataclass(frozen=True, kw_only=True)
class _Question:
    kind: str
    text: str
    answer: str
    asked: int
    subject: Object


def sample(
    seed: int,
    *,
    checkpoint: str = "shapes-qwen3_5",
    kind: str | None = None,
    images: int | None = None,
    size: tuple[int, int] | None = None,
    objects: int | None = None,
) -> Scene:
    """Draw a scene.

    Args:
        seed: The same seed and arguments give the same scene everywhere; training drew none below 1,000,000.
        checkpoint: Whose picture sizes and prompt to use.
        kind: One of `KINDS`; drawn when left out.
        images: 1, or 2 for the kinds that ask about one of two pictures; follows from the kind when left out.
        size: Width and height in pixels; drawn when left out.
        objects: How many objects a picture holds at most, 1 to 5; 3, 4 or 5 when left out.

    Returns:
        The scene, its question answerable in exactly one way.

    Raises:
        ValueError: The checkpoint, the kind, the size or the combination of kind and number of images is unknown.
    """
    rng = random.Random(seed)
    count = _picture_count(kind, images)
    if objects is not None and objects not in range(1, 6):
        raise ValueError(f"a picture holds 1 to 5 objects, not {objects}")
    tokens = _tokens(checkpoint, size)
    while True:
        pictures = tuple(_picture(rng, checkpoint, tokens, objects) for _ in range(count))
        questions = [question for question in well_posed(pictures, checkpoint) if kind in (None, question.kind)]
        if questions:
            return scene(checkpoint, pictures, rng.choice(questions))


def pair(
    seed: int,
    *,
    checkpoint: str = "shapes-qwen3_5",
    kind: str | None = None,
    images: int | None = None,
    size: tuple[int, int] | None = None,
    objects: int | None = None,
) -> tuple[Scene, Scene]:
    """Draw a clean and a corrupt scene that differ in one object's colour or shape.

    The question is the same, the answers differ, and so do the pixels inside `changed` and nowhere else.

    Args:
        seed: As in `sample`.
        checkpoint: As in `sample`.
        kind: As in `sample`, without `size_of_shape`: an object of another size would not fill its box.
        images: As in `sample`.
        size: As in `sample`.
        objects: As in `sample`.

    Returns:
        The clean scene and the corrupt one.

    Raises:
        ValueError: As in `sample`, or the kind is `size_of_shape`.
    """
    if kind == "size_of_shape":
        raise ValueError("a pair changes a colour or a shape, so its kind cannot be 'size_of_shape'")
    rng = random.Random(seed)
    while True:
        clean = sample(
            rng.randrange(2**32), checkpoint=checkpoint, kind=kind, images=images, size=size, objects=objects
        )
        if clean.answer not in SIZES:
            return corrupted(clean, rng)


def corrupted(clean: Scene, rng: random.Random) -> tuple[Scene, Scene]:
    """The scene and its twin, in which the answer is another one."""
    subject = clean.subject
    if clean.answer in COLORS:
        color = rng.choice([name for name in COLORS if name != clean.answer])
        other = replace(subject, color=color, rgb=_shade(color, rng))
        answer = color
    else:
        answer = rng.choice([name for name in SHAPES if name != clean.answer])
        other = replace(subject, shape=answer)
    swapped = tuple(other if item is subject else item for item in clean.objects)
    picture = replace(clean.pictures[clean.asked], objects=swapped)
    pictures = (*clean.pictures[: clean.asked], picture, *clean.pictures[clean.asked + 1 :])
    return (
        replace(clean, changed=subject.box),
        replace(clean, changed=subject.box, pictures=pictures, subject=other, answer=answer),
    )


def scene(checkpoint: str, pictures: tuple[Picture, ...], question: _Question) -> Scene:
    """The pictures with one of their questions."""
    return Scene(
        checkpoint=checkpoint,
        kind=question.kind,
        question=question.text,
        answer=question.answer,
        pictures=pictures,
        asked=question.asked,
        subject=question.subject,
    )


def well_posed(pictures: tuple[Picture, ...], checkpoint: str) -> list[_Question]:
    """Every question about the pictures that has exactly one answer and, of two pictures, another one in the other."""
    if len(pictures) == 1:
        return list(_about(pictures[0]))
    asked = [{question.text: question for question in _about(picture)} for picture in pictures]
    return [
        replace(
            question,
            kind=TWO_IMAGE_KINDS[index],
            text=style_of(checkpoint).of_two.format(ordinal=ORDINALS[index], question=text.rstrip("?")),
            asked=index,
        )
        for index in range(2)
        for text, question in asked[index].items()
        if text in asked[1 - index] and asked[1 - index][text].answer != question.answer
    ]


def _about(picture: Picture) -> Iterator[_Question]:
    """The questions about one picture whose description fits exactly one object."""
    shapes = Counter(item.shape for item in picture.objects)
    colors = Counter(item.color for item in picture.objects)
    for item in picture.objects:
        for kind, template in QUESTIONS.items():
            wanted, _, known = kind.partition("_")
            known = known.rpartition("_")[2]
            if (known == "shape" and shapes[item.shape] > 1) or (known == "color" and colors[item.color] > 1):
                continue
            text = template.format(**{known: getattr(item, known)})
            yield _Question(kind=kind, text=text, answer=getattr(item, wanted), asked=0, subject=item)


def _picture_count(kind: str | None, images: int | None) -> int:
    """How many pictures the kind asks about, checked against what was asked for."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"no kind of question is named {kind!r}; known: {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    count = (2 if kind in TWO_IMAGE_KINDS else 1) if kind else (images or 1)
    if count not in (1, 2) or images not in (None, count):
        raise ValueError(f"kind {kind!r} goes with {count} image(s), not {images}: a scene has 1 picture or 2")
    return count


def _tokens(checkpoint: str, size: tuple[int, int] | None) -> tuple[int, int] | None:
    """The size in image tokens, checked against the checkpoint's pictures."""
    style = style_of(checkpoint)
    if size is None:
        return None
    allowed = [side * style.token_side for side in style.sides]
    if not set(size) <= set(allowed):
        raise ValueError(f"{checkpoint} draws pictures with sides {allowed}, not {size[0]} x {size[1]}")
    return size[0] // style.token_side, size[1] // style.token_side


def _picture(rng: random.Random, checkpoint: str, tokens: tuple[int, int] | None, objects: int | None) -> Picture:
    """A picture of the given size and number of objects, or of random ones."""
    style = style_of(checkpoint)
    columns, rows = tokens or (rng.choice(style.sides), rng.choice(style.sides))
    shade = rng.randrange(30, 226)
    side = style.token_side
    return Picture(
        size=(columns * side, rows * side),
        ground=_clip(shade + rng.randint(-12, 12) for _ in range(3)),
        seed=rng.randrange(2**32),
        objects=_objects(rng, (columns, rows), side, objects or rng.randint(3, 5)),
    )


def _objects(rng: random.Random, tokens: tuple[int, int], side: int, wanted: int) -> tuple[Object, ...]:
    """Objects on two by two tokens each, in places of their own."""
    columns, rows = (_starts(count) for count in tokens)
    places = rng.sample([(x, y) for x in range(3) for y in range(3)], 9)
    taken: set[tuple[int, int]] = set()
    objects = []
    for x, y in places:
        column, row = rng.choice(columns[x]), rng.choice(rows[y])
        covered = {(column + dx, row + dy) for dx in range(_SPAN) for dy in range(_SPAN)}
        if taken.isdisjoint(covered):
            taken |= covered
            objects.append(_object(rng, PLACES[y][x], (column * side, row * side), side))
        if len(objects) == wanted:
            break
    return tuple(objects)


def _starts(count: int) -> list[list[int]]:
    """For each third of an axis of `count` tokens, where an object can start so that its centre is clearly there."""
    centres = [(start, (start + _SPAN / 2) / count) for start in range(count - _SPAN + 1)]
    return [
        [start for start, centre in centres if third / 3 + _MARGIN <= centre <= (third + 1) / 3 - _MARGIN]
        for third in range(3)
    ]


def _object(rng: random.Random, position: str, corner: tuple[int, int], side: int) -> Object:
    """An object of random looks whose box covers a fair part of each of its tokens."""
    size, shape, color = rng.choice(SIZES), rng.choice(SHAPES), rng.choice(list(COLORS))
    low, high = (round(share * _SPAN * side) for share in _SIDES[size])
    length = rng.randint(low, high)
    least, most = max(0, round((1 + _COVER) * side) - length), min(_SPAN * side - length, round((1 - _COVER) * side))
    left, top = (start + rng.randint(least, most) for start in corner)
    box = (left, top, left + length, top + length)
    return Object(shape=shape, color=color, size=size, position=position, box=box, rgb=_shade(color, rng))


def _shade(color: str, rng: random.Random) -> Color:
    """The colour, a little off."""
    return _clip(level + rng.randint(-14, 14) for level in COLORS[color])


def _clip(levels: Iterator[int]) -> Color:
    """Three levels held between 0 and 255."""
    red, green, blue = (min(255, max(0, level)) for level in levels)
    return red, green, blue
