"""The words of the shapes world, the five base questions, and how each checkpoint's prompt is written.

Every answer is one word and every word is one token, so that an experiment can compare two logits and be done. The
names of colours, shapes, sizes and places are the whole vocabulary of the answers; the questions add a dozen more.
"""

from dataclasses import dataclass

from belvedere.spelling import did_you_mean

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (215, 40, 40),
    "green": (35, 150, 60),
    "blue": (45, 75, 215),
    "yellow": (235, 215, 45),
    "purple": (135, 50, 175),
    "orange": (240, 135, 25),
    "cyan": (60, 205, 220),
    "pink": (250, 150, 200),
}
SHAPES = ("square", "circle", "triangle", "cross", "diamond")
SIZES = ("small", "large")
PLACES = (
    ("northwest", "north", "northeast"),
    ("west", "center", "east"),
    ("southwest", "south", "southeast"),
)
ORDINALS = ("first", "second")

QUESTIONS = {
    "color_of_shape": "what color is the {shape}?",
    "shape_of_color": "what shape is {color}?",
    "size_of_shape": "what size is the {shape}?",
    "color_at_position": "what color is in the {position}?",
    "shape_at_position": "what shape is in the {position}?",
}
TWO_IMAGE_KINDS = tuple(f"{ordinal}_image" for ordinal in ORDINALS)
KINDS = (*QUESTIONS, *TWO_IMAGE_KINDS)

WORDS = (
    *("what", "color", "shape", "size", "is", "the", "in", "image", "?", ":", ",", "user", "assistant"),
    *ORDINALS,
    *(place for row in PLACES for place in row),
    *SIZES,
    *SHAPES,
    *COLORS,
)


@dataclass(frozen=True, kw_only=True)
class Style:
    """What a checkpoint expects: the side of an image token in pixels, the pictures' sides, and its prompt.

    Qwen's first text block sees four tokens back, so a question that names one of two pictures keeps the name beside
    what it asks about.
    """

    token_side: int
    sides: tuple[int, ...]  # in image tokens
    special: tuple[str, ...]  # pad, unknown, begin, end, then the placeholders
    image: str  # stands for one picture in the prompt
    of_two: str  # a question about one of two pictures
    prompt: str
    chat_template: str


_LLAVA_CHAT = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}{% endif %}"
    "{% if message['role'] == 'user' %} {% else %}{{ eos_token }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
_QWEN_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

STYLES = {
    "shapes-llava": Style(
        token_side=8,
        sides=(8,),
        special=("<pad>", "<unk>", "<s>", "</s>", "<image>"),
        image="<image>\n",
        of_two="in the {ordinal} image, {question}?",
        prompt="<s>USER: {images}{question} ASSISTANT:",
        chat_template=_LLAVA_CHAT,
    ),
    "shapes-qwen3_5": Style(
        token_side=16,
        sides=(6, 7, 8),
        special=(
            *("<|endoftext|>", "<|unknown|>", "<|im_start|>", "<|im_end|>"),
            *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
        ),
        image="<|vision_start|><|image_pad|><|vision_end|>",
        of_two="{question}, {ordinal} image?",
        prompt="<|im_start|>user\n{images}{question}<|im_end|>\n<|im_start|>assistant\n",
        chat_template=_QWEN_CHAT,
    ),
}


def style_of(name: str) -> Style:
    """The named checkpoint's style."""
    if name not in STYLES:
        raise ValueError(
            f"no checkpoint is named {name!r}; known: {', '.join(sorted(STYLES))}{did_you_mean(name, STYLES)}"
        )
    return STYLES[name]
