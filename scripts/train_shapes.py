"""Train one of the checkpoints that ship with the package, from nothing, on two processor cores.

    python scripts/train_shapes.py --checkpoint shapes-llava --out folder
    python scripts/train_shapes.py --evaluate folder

Training has two stages, as LLaVA's has. First the tower learns to see: linear heads, thrown away at the end, name the
shape, colour, size and place of what each image token shows. Then the whole model learns to answer, on pictures that
grow from two objects to five. Every step of the second stage draws pairs of scenes that differ in one object and holds
four conversations about each: over the image features of the clean scene, of the corrupt one, and of their two
interchanges, where the features under the changed object come from one scene and all others from the other. The
answers must follow the features under the object. This is interchange intervention training (Geiger et al. 2022):
what the tower knows about an object stays in the image tokens that show it. The attention of one text block is guided
to the object asked about, which is what such a small model finds hardest to discover. So experiments on the checkpoint
have a known right result.
"""

import json
import math
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from belvedere import shapes
from belvedere.shapes import build
from belvedere.shapes.scenes import scene, well_posed
from belvedere.shapes.vocabulary import PLACES

NAMES = {
    "shape": shapes.SHAPES,
    "color": tuple(shapes.COLORS),
    "size": shapes.SIZES,
    "position": tuple(place for row in PLACES for place in row),
}
PAIR_KINDS = [kind for kind in shapes.KINDS if kind != "size_of_shape"]
LEVELS = 5
LOOKING = 1  # the text block whose attention is guided, the first softmax attention of both that knows the question
Log = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long a checkpoint trains, on how much at a time."""

    looks: int  # steps of the first stage
    answers: int  # steps of the second
    pictures: int = 32  # of a step of the first stage
    pairs: int = 8  # of a step of the second, which asks up to a hundred questions
    turns: int = 4  # most questions of a conversation, each about another object
    seeing: float = 2e-3  # learning rate of the first stage
    peak: float = 3e-3  # and of the second
    gentle: float = 0.2  # the tower's share of it in the second stage
    naming: float = 0.3  # the first stage's loss goes on at this weight
    looking: float = 0.3  # weight of the attention that must go to the object asked about
    warm: int = 100  # steps in which the learning rate rises


PLANS = {
    "shapes-llava": Plan(looks=3000, answers=2000),
    "shapes-qwen3_5": Plan(looks=1500, answers=1500),
}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A question, its answer, and the image tokens that show the object it is about."""

    question: str
    answer: str
    tokens: list[int]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A conversation, held over image features that need not be the scene's own."""

    scene: shapes.Scene
    turns: list[Turn]
    features: list[Tensor]


class Learner:
    """A model and its processor, as functions of pictures and rows."""

    def __init__(self, name: str, model: Any, processor: Any) -> None:
        self.name, self.model, self.processor = name, model, processor
        words = [*shapes.SHAPES, *shapes.COLORS, *shapes.SIZES]
        self.answers = torch.tensor(processor.tokenizer.convert_tokens_to_ids(words))
        after = shapes.STYLES[name].prompt.partition("{question}")[2]
        self.lead = 2 + len(processor.tokenizer(after, add_special_tokens=False).input_ids)
        self.pattern = torch.empty(0)
        attention = model.model.language_model.layers[LOOKING].self_attn
        attention.register_forward_hook(self._keep)

    def _keep(self, _module: nn.Module, _arguments: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Hold on to the pattern of the block that looks at the image, `[rows, heads, from, to]`."""
        self.pattern = output[1]

    def features(self, images: list[Image.Image]) -> list[Tensor]:
        """What the projector makes of each picture, `[image tokens, hidden]`."""
        inputs = self.processor.image_processor(images=images, return_tensors="pt")
        return list(self.model.get_image_features(**inputs).pooler_output)

    def answer(self, rows: list[Row]) -> tuple[Tensor, Tensor, Tensor]:
        """What the model says and should say in every turn, and how much it looks at the object asked about.

        The answer is due as soon as the question's last word is read, and again at each token up to the end of the
        prompt, where it counts; the token after the answer must be the end. So there are logits `[turns, lead + 1,
        vocabulary]` and right tokens `[turns, lead + 1]`. The third is the share of attention, `[turns]`, that the last
        word pays to the object's image tokens.
        """
        tokenizer = self.processor.tokenizer
        texts = [self._text(row) for row in rows]
        ids = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt")["input_ids"]
        hidden = self.model.model(input_ids=ids, use_cache=False, **self._images(rows, ids)).last_hidden_state
        answers = torch.isin(ids[:, :-1], self.answers) & (ids[:, 1:] == tokenizer.eos_token_id)
        row, place = (index[:, None] for index in answers.nonzero(as_tuple=True))
        right = torch.cat([ids[row, place].expand(-1, self.lead), ids[row, place + 1]], dim=1)
        logits = self.model.lm_head(hidden[row, place + torch.arange(-self.lead, 1)])
        pattern = self.pattern[row[:, 0], :, place[:, 0] - self.lead].mean(1)
        images = [places.nonzero()[:, 0] for places in ids == self.processor.image_token_id]
        shown = [images[index][turn.tokens] for index, row in enumerate(rows) for turn in row.turns]
        return logits, right, torch.stack([pattern[turn, tokens].sum() for turn, tokens in enumerate(shown)])

    def _text(self, row: Row) -> str:
        """The conversation with one placeholder per image token, as the processor writes it."""
        messages: list[dict[str, Any]] = []
        for turn in row.turns:
            images = [] if messages else [{"type": "image"}] * len(row.features)
            messages.append({"role": "user", "content": [*images, {"type": "text", "text": turn.question}]})
            messages.append({"role": "assistant", "content": turn.answer})
        token = self.processor.image_token
        first, *rest = self.processor.apply_chat_template(messages, tokenize=False).split(token)
        return first + "".join(token * len(image) + text for image, text in zip(row.features, rest, strict=True))

    def _images(self, rows: list[Row], ids: Tensor) -> dict[str, Any]:
        """The rows' features in place of pixels, and the grids that Qwen's rotary positions need."""
        outputs = BaseModelOutputWithPooling(pooler_output=[image for row in rows for image in row.features])
        inputs: dict[str, Any] = {"mm_encoder_outputs": {"image": outputs}}
        if self.name == "shapes-qwen3_5":
            patch = self.processor.image_processor.patch_size
            sizes = [picture.size for row in rows for picture in row.scene.pictures]
            inputs["image_grid_thw"] = torch.tensor([[1, height // patch, width // patch] for width, height in sizes])
            inputs["mm_token_type_ids"] = (ids == self.processor.image_token_id).int()
            # The delta rule's result is the same in chunks of any length; short ones are cheaper on a processor.
            inputs["chunk_size"] = 16
        return inputs


class Naming(nn.Module):
    """Linear heads that name the shape, colour, size and place of what an image token shows, or nothing."""

    def __init__(self, hidden: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.heads = nn.ModuleDict({what: nn.Linear(hidden, 1 + len(names)) for what, names in NAMES.items()})

    def forward(self, features: Tensor, pictures: Iterable[shapes.Picture]) -> Tensor:
        """The summed cross-entropy of the heads; empty tokens, of which there are most, count less."""
        targets = torch.cat([self._targets(picture) for picture in pictures], dim=1)
        losses = []
        for head, target in zip(self.heads.values(), targets, strict=True):
            logits = head(features)
            weight = torch.tensor([0.3] + [1.0] * (logits.shape[-1] - 1))
            losses.append(nn.functional.cross_entropy(logits, target, weight=weight))
        return torch.stack(losses).sum()

    def _targets(self, picture: shapes.Picture) -> Tensor:
        """For each head and image token, 0 or one more than the index of the name."""
        width, height = (length // self.side for length in picture.size)
        targets = torch.zeros(len(NAMES), height, width, dtype=torch.long)
        for item in picture.objects:
            left, top, right, bottom = item.box
            rows = slice(top // self.side, -(-bottom // self.side))
            columns = slice(left // self.side, -(-right // self.side))
            for head, (what, names) in enumerate(NAMES.items()):
                targets[head, rows, columns] = 1 + names.index(getattr(item, what))
        return targets.flatten(1)


def interchange(base: list[Tensor], source: list[Tensor], rows: Tensor) -> list[Tensor]:
    """The base's features, with the source's at the given rows."""
    mixed = torch.cat(base).index_copy(0, rows, torch.cat(source)[rows])
    return list(mixed.split([len(features) for features in base]))


def fresh(rng: random.Random) -> int:
    """A seed that no held-out scene has."""
    return rng.randrange(shapes.HELD_OUT.stop, 2**40)


def look(learner: Learner, naming: Naming, rng: random.Random, plan: Plan) -> Iterator[tuple[Tensor, float]]:
    """The first stage, step by step: the loss and the share of the peak learning rate."""
    for step in range(plan.looks):
        pictures = [shapes.sample(fresh(rng), checkpoint=learner.name).pictures[0] for _ in range(plan.pictures)]
        features = learner.features([picture.image for picture in pictures])
        yield naming(torch.cat(features), pictures), rise_and_fall(step, plan.looks, plan.warm)


def answer(learner: Learner, naming: Naming, rng: random.Random, plan: Plan) -> Iterator[tuple[Tensor, float]]:
    """The second stage, step by step: the loss and the share of the peak learning rate."""
    for step in range(plan.answers):
        level = 2 + min(LEVELS - 2, 20 * step // plan.answers)
        pairs = [draw(learner.name, rng, level) for _ in range(plan.pairs)]
        pictures = list({id(picture): picture for pair in pairs for s in pair for picture in s.pictures}.values())
        features = learner.features([picture.image for picture in pictures])
        seen = dict(zip(map(id, pictures), features, strict=True))
        rows = [row for pair in pairs for row in conversations(pair, seen, rng, plan.turns)]
        logits, right, looking = learner.answer(rows)
        losses = nn.functional.cross_entropy(logits.transpose(1, 2), right, reduction="none")
        answering = losses.mean() - plan.looking * looking.log().mean()
        yield (
            answering + plan.naming * naming(torch.cat(features), pictures),
            rise_and_fall(step, plan.answers, plan.warm),
        )


def rise_and_fall(step: int, steps: int, warm: int) -> float:
    """The share of the peak learning rate: a linear rise, then half a cosine."""
    return min(1, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * step / steps))


def draw(name: str, rng: random.Random, level: int) -> tuple[shapes.Scene, shapes.Scene]:
    """A pair with at most `level` objects in a picture; the last level's pictures are those of the evaluation."""
    kinds = PAIR_KINDS if level > LEVELS // 2 else [kind for kind in PAIR_KINDS if not kind.endswith("_image")]
    objects = None if level == LEVELS else rng.randint(2, level)
    return shapes.pair(fresh(rng), checkpoint=name, kind=rng.choice(kinds), objects=objects)


def conversations(
    pair: tuple[shapes.Scene, shapes.Scene], seen: dict[int, Tensor], rng: random.Random, most: int
) -> Iterator[Row]:
    """Over both scenes' features and both interchanges, which must be answered like the scene of the changed object."""
    clean, corrupt = pair
    ours, theirs = ([seen[id(picture)] for picture in s.pictures] for s in pair)
    under = torch.tensor(clean.tokens_under(clean.subject.box))
    yield Row(scene=clean, turns=turns(clean, rng, most), features=ours)
    yield Row(scene=corrupt, turns=turns(corrupt, rng, most), features=theirs)
    yield Row(scene=clean, turns=turns(clean, rng, most), features=interchange(theirs, ours, under))
    yield Row(scene=corrupt, turns=turns(corrupt, rng, most), features=interchange(ours, theirs, under))


def turns(about: shapes.Scene, rng: random.Random, most: int) -> list[Turn]:
    """The scene's question and others, each about another object so that no answer gives a later one away."""
    others: dict[Any, Turn] = {}
    for question in rng.sample(questions := well_posed(about.pictures, about.checkpoint), len(questions)):
        if question.subject is not about.subject:
            others.setdefault(id(question.subject), turn(scene(about.checkpoint, about.pictures, question)))
    asked = [turn(about), *list(others.values())[: most - 1]]
    return rng.sample(asked, len(asked))


def turn(about: shapes.Scene) -> Turn:
    """The scene's question as a turn of a conversation."""
    return Turn(question=about.question, answer=about.answer, tokens=about.tokens_under(about.subject.box))


def descend(stage: str, steps: Iterator[tuple[Tensor, float]], most: int, peaks: dict[float, list[Any]]) -> Log:
    """Follow a stage's losses downhill with AdamW; the log has their means over a hundred steps.

    `peaks` has the parameters by their peak learning rates.
    """
    parameters = [parameter for group in peaks.values() for parameter in group]
    optimizer = torch.optim.AdamW(({"params": group} for group in peaks.values()), betas=(0.9, 0.98), weight_decay=0.01)
    columns = ("{task.description}", BarColumn(), "{task.completed}/{task.total}", TimeRemainingColumn())
    log: Log = []
    recent: list[float] = []
    start = time.perf_counter()
    with Progress(*columns, TextColumn("loss {task.fields[loss]:.3f}")) as progress:
        task = progress.add_task(stage, total=most, loss=float("nan"))
        for step, (loss, rate) in enumerate(steps, start=1):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = rate * peak
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            recent.append(loss.item())
            progress.update(task, advance=1, loss=recent[-1])
            if step % 100 == 0:
                seconds, mean = round(time.perf_counter() - start), round(sum(recent) / len(recent), 4)
                log.append({"stage": stage, "step": step, "seconds": seconds, "loss": mean})
                recent.clear()
    return log


@torch.no_grad()
def accuracy(learner: Learner, kind: str, count: int) -> float:
    """The share of held-out questions that the model answers right, through its own processor, in padded batches."""
    right = 0
    for start in range(0, count, 50):
        scenes = [shapes.sample(seed, checkpoint=learner.name, kind=kind) for seed in range(start, start + 50)]
        inputs = learner.processor(
            text=[s.prompt for s in scenes], images=[s.images for s in scenes], padding=True, return_tensors="pt"
        )
        answers = learner.model(**inputs, logits_to_keep=1).logits[:, -1].argmax(-1).tolist()
        wanted = learner.processor.tokenizer.convert_tokens_to_ids([s.answer for s in scenes])
        right += sum(a == w for a, w in zip(answers, wanted, strict=True))
    return right / count


@torch.no_grad()
def locality(learner: Learner, count: int) -> dict[str, float]:
    """How much of the clean answer each part of the clean picture's features brings back, over held-out pairs.

    0 is the corrupt scene's difference of the two answers' logits, 1 the clean scene's. `ranking` is the chance that a
    token under the changed object alone brings back more than one elsewhere (the area under the ROC curve).
    """
    figures = []
    for seed in range(count):
        pair = shapes.pair(seed, checkpoint=learner.name)
        ours, theirs = (learner.features(s.images) for s in pair)
        inside = pair[0].tokens_under(pair[0].subject.box)
        outside = sorted(set(range(sum(map(len, ours)))).difference(inside))
        parts = [inside, outside, *([token] for token in sorted({*inside, *outside}))]
        mixed = [interchange(theirs, ours, torch.tensor(part)) for part in parts]
        rows = [Row(scene=pair[0], turns=[turn(pair[0])], features=f) for f in (theirs, ours, *mixed)]
        logits, right, _ = learner.answer(rows)
        other = learner.processor.tokenizer.convert_tokens_to_ids(pair[1].answer)
        difference = logits[:, -2, right[0, -2]] - logits[:, -2, other]
        under, elsewhere, *single = ((difference[2:] - difference[0]) / (difference[1] - difference[0])).tolist()
        wins = [float(single[i] > single[j]) for i in inside for j in outside]
        figures.append((under, elsewhere, sum(wins) / len(wins)))
    means = torch.tensor(figures).mean(0).tolist()
    return dict(zip(("under the object", "elsewhere", "ranking"), (round(mean, 4) for mean in means), strict=True))


def evaluation(folder: Path, count: int, pairs: int = 50) -> dict[str, Any]:
    """The folder's figures on held-out scenes, loaded as anyone would load it."""
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    name = next(name for name in shapes.CHECKPOINTS if name == f"shapes-{model.config.model_type}")
    model.set_attn_implementation({"text_config": "eager"})
    learner = Learner(name, model, AutoProcessor.from_pretrained(folder))
    figures = {kind: accuracy(learner, kind, count) for kind in shapes.KINDS}
    return {"held_out_per_kind": count, "accuracy": figures, "locality": locality(learner, pairs)}


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    table = Table("question", f"right of {figures['held_out_per_kind']} held out")
    for kind, share in figures["accuracy"].items():
        table.add_row(kind, f"{share:.1%}")
    for part, share in figures["locality"].items():
        table.add_row(f"interchange: {part}", f"{share:.3f}")
    Console().print(table)


def fresh_model(name: str) -> Any:
    """Random weights; words start as long as what the first blocks add to them, and attention keeps its patterns."""
    model = build.model(name)
    nn.init.normal_(model.get_input_embeddings().weight, std=0.5)
    model.set_attn_implementation({"text_config": "eager"})
    return model


def train(name: str, out: Path, seed: int) -> dict[str, Any]:
    """Both stages, then the folder and its figures."""
    torch.manual_seed(seed)
    plan, start = PLANS[name], time.perf_counter()
    learner = Learner(name, fresh_model(name), build.processor(name))
    naming = Naming(learner.model.config.text_config.hidden_size, shapes.STYLES[name].token_side)
    text = [*learner.model.model.language_model.parameters(), *learner.model.lm_head.parameters()]
    known = set(map(id, text))
    sight = [p for p in (*learner.model.parameters(), *naming.parameters()) if id(p) not in known]
    looks = look(learner, naming, random.Random(seed), plan)
    log = descend("look", looks, plan.looks, {plan.seeing: sight})
    answers = answer(learner, naming, random.Random(seed + 1), plan)
    log += descend("answer", answers, plan.answers, {plan.peak: text, plan.gentle * plan.peak: sight})
    learner.model.save_pretrained(out)
    learner.processor.save_pretrained(out)
    figures = evaluation(out, 1000)
    facts = {"checkpoint": name, "seed": seed, "training_seconds": round(time.perf_counter() - start)}
    (out / "training.json").write_text(json.dumps({**facts, **figures, "log": log}, indent=1) + "\n")
    return figures


def main(
    checkpoint: Annotated[str, typer.Option(help="Which of the two to train.")] = "shapes-llava",
    out: Annotated[Path | None, typer.Option(help="Folder for the trained checkpoint.")] = None,
    seed: Annotated[int, typer.Option(help="Of the weights and the scenes.")] = 0,
    threads: Annotated[int, typer.Option(help="Processor threads.")] = 2,
    evaluate: Annotated[Path | None, typer.Option(help="Only print the figures of this folder.")] = None,
    count: Annotated[int, typer.Option(help="With --evaluate: held-out scenes per kind, in fifties.")] = 1000,
) -> None:
    """Train a checkpoint into a folder, or evaluate one."""
    torch.set_num_threads(threads)
    if evaluate:
        show(evaluation(evaluate, count))
    elif out:
        show(train(checkpoint, out, seed))
    else:
        raise typer.BadParameter("say where to write the checkpoint", param_hint="--out")


if __name__ == "__main__":
    typer.run(main)
