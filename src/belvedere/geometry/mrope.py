"""The three positions of each token of a prompt with pictures: in time, down and across (M-RoPE).

Text counts on by one, the same in all three. A picture's tokens stand at its beginning plus their frame, row and
column, and the text behind it goes on from a place that depends on its size and not on its number of tokens. So
positions run behind the count of tokens, by the delta, which says where generation goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from belvedere.geometry.pack import HOST, Pack, Places, host_grids, locate, per_entry

__all__ = ["QWEN2_5_OMNI", "QWEN2_VL", "QWEN2_VL_PAPER", "QWEN3_VL", "MRope", "mrope_position_ids"]


@dataclass(frozen=True, kw_only=True)
class MRope:
    """How a family of models counts positions.

    Args:
        video: Whether a video's frames are one run of placeholders, or each is a run of its own, between timestamps,
            and begins at time 0.
        advance: Where the text behind a picture or video begins: at its beginning plus its longer side in image
            tokens, or one past the largest position in it, which in a long video is its last frame's.
        tokens_per_second: The positions of a second of video: the config's ``tokens_per_second`` in Qwen2.5-VL, its
            ``position_id_per_seconds`` in Omni.
        clock: How a frame's number becomes its time, in float32 and rounded down: times the positions of an interval,
            or first times the seconds of an interval and then times the positions of a second.
        temporal_merge_size: How many frames of a video are folded into one, as in ERNIE 4.5 VL.
        padding: The position of what the attention mask hides.
    """

    video: Literal["whole", "frames"] = "whole"
    advance: Literal["side", "largest"] = "side"
    tokens_per_second: float = 1
    clock: Literal["interval", "seconds"] = "interval"
    temporal_merge_size: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        known = {"video": ("whole", "frames"), "advance": ("side", "largest"), "clock": ("interval", "seconds")}
        for name, among in known.items():
            if getattr(self, name) not in among:
                raise ValueError(f"{name}={getattr(self, name)!r} is none of {', '.join(map(repr, among))}")


QWEN2_VL = MRope()
"""Qwen2-VL as transformers runs it; Qwen2.5-VL with its ``tokens_per_second``, ERNIE 4.5 VL with its temporal merge."""
QWEN2_VL_PAPER = MRope(advance="largest")
"""Qwen2-VL and Qwen2.5-VL by their paper: the text behind a video is ``max(t, h, w)`` on. For pictures the same."""
QWEN2_5_OMNI = MRope(advance="largest", tokens_per_second=25, clock="seconds", padding=1)
"""Qwen2.5-Omni; its sounds count as text, and a video brings none of its own."""
QWEN3_VL = MRope(video="frames")
"""Qwen3-VL, Qwen3.5, GLM-4V and their kin: the text behind a picture is ``max(h, w) // merge`` on."""


def mrope_position_ids(
    input_ids: Tensor,
    image_grids: Pack = (),
    video_grids: Pack = (),
    *,
    convention: MRope,
    spatial_merge_size: int,
    image_token_id: int,
    video_token_id: int = -1,
    attention_mask: Tensor | None = None,
    second_per_grid_ts: Sequence[float] | Tensor | None = None,
    start_pos: int | Sequence[int] | Tensor = 0,
    start_delta: int | Sequence[int] | Tensor = 0,
) -> tuple[Tensor, Tensor]:
    """The position of each token in time, down and across, and how far positions are from the count of tokens.

    The last of ``length`` tokens, prompt, cache and all, has the position ``(length - 1) + delta`` once it comes after
    the prompt; padding does not count.

    Args:
        input_ids: ``[batch, seq]``. Placeholders belong to the grids in order, row by row. Where a video's are the
            image's, as in GLM-4V, pass ``input_ids.masked_fill(mm_token_type_ids == 2, video_token_id)``.
        image_grids: ``(t, h, w)`` of each picture, in patches.
        video_grids: ``(t, h, w)`` of each video, in patches; one entry for all its frames.
        convention: `QWEN2_VL`, `QWEN3_VL` or another.
        spatial_merge_size: How many patches a side are folded into an image token.
        image_token_id: The placeholder of an image token.
        video_token_id: The placeholder of a video's token.
        attention_mask: ``[batch, seq]``, 0 at padding, on either side.
        second_per_grid_ts: The seconds between two frames of each video; 1 if left out.
        start_pos: How many tokens are cached ahead of these, padding aside; one for each row where they differ.
        start_delta: The delta of what is cached, where pictures are among it.

    Returns:
        Positions, ``[3, batch, seq]``, and the delta, ``[batch, 1]``, where ``input_ids`` is.

    Raises:
        ValueError: The grids make more or fewer tokens than there are placeholders, text interrupts a picture, or ids
            and mask are not of one shape ``[batch, seq]``.
    """
    ids, cached = input_ids.to(HOST), _column(start_pos)
    shown = _shown(ids, attention_mask)
    images = _images(image_grids, spatial_merge_size)
    videos = _videos(video_grids, spatial_merge_size, second_per_grid_ts, convention)
    placed = [
        (images, _placeholders("image", images, ids == image_token_id, shown)),
        (videos, _placeholders("video", videos, ids == video_token_id, shown)),
    ]
    positions, following = _positions(placed, shown, cached + _column(start_delta))
    positions = positions.masked_fill(~shown, convention.padding).to(input_ids)
    return positions, (following - cached - shown.sum(1, keepdim=True)).to(input_ids.device)


def _shown(ids: Tensor, mask: Tensor | None) -> Tensor:
    """What is no padding, ``[batch, seq]`` on the host."""
    if ids.ndim != 2 or (mask is not None and mask.shape != ids.shape):
        raise ValueError("input_ids and attention_mask are both [batch, seq], without what is cached ahead of them")
    return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.to(HOST).bool()


@dataclass(frozen=True, kw_only=True)
class _Visuals:
    """Pictures or videos, their image tokens one after another.

    Args:
        counts: How many image tokens each has.
        where: The row and column of each image token, and which picture's it is.
        times: The time of each image token.
        advances: How far the text behind each is from its beginning.
    """

    counts: Tensor
    where: Places
    times: Tensor
    advances: Tensor

    @property
    def firsts(self) -> Tensor:
        """The number of each one's first image token."""
        return self.counts.cumsum(0) - self.counts


def _images(grid: Pack, merge: int) -> _Visuals:
    """Pictures; what frames they have are one position apart."""
    folds = _folds(host_grids(grid), merge)
    where = _where(folds)
    return _Visuals(counts=folds.prod(1), where=where, times=where.frame, advances=folds[:, 1:].amax(1))


def _videos(grid: Pack, merge: int, seconds: Sequence[float] | Tensor | None, convention: MRope) -> _Visuals:
    """Videos, or each frame of them."""
    folds = _folds(host_grids(grid), merge)
    folds[:, 0] //= convention.temporal_merge_size
    if convention.video == "frames":
        folds = folds.repeat_interleave(folds[:, 0], dim=0)
        folds[:, 0], seconds = 1, None
    where = _where(folds)
    counts, times = folds.prod(1), _times(where, _seconds(seconds, len(folds)), convention)
    advances = folds[:, 1:].amax(1)
    if convention.advance == "largest":
        advances = torch.maximum(advances, times[counts.cumsum(0) - 1] + 1)
    return _Visuals(counts=counts, where=where, times=times, advances=advances)


def _folds(grids: Tensor, merge: int) -> Tensor:
    """Frames, and rows and columns of image tokens, of each entry."""
    folds = grids.clone()
    folds[:, 1:] //= per_entry(merge, grids)[:, None]
    return folds


def _where(folds: Tensor) -> Places:
    return locate(folds, per_entry(1, folds))


def _seconds(seconds: Sequence[float] | Tensor | None, count: int) -> Tensor:
    """The seconds between two frames of each video; numbers stay in double precision until they meet a frame's."""
    if seconds is None:
        return torch.ones(count, device=HOST)
    given = seconds.to(HOST) if isinstance(seconds, Tensor) else torch.tensor(seconds, dtype=torch.float64, device=HOST)
    if given.shape != (count,):
        raise ValueError(f"{count} videos have {given.numel()} second_per_grid_ts; pass one for each")
    return given


def _times(where: Places, seconds: Tensor, convention: MRope) -> Tensor:
    """The time of each image token; the order of the products matters, for what comes out is rounded down."""
    rate = convention.tokens_per_second
    if convention.clock == "seconds":
        return (where.frame * seconds.float()[where.entry] * rate).long()
    return (where.frame * (rate * seconds).float()[where.entry]).long()


def _placeholders(kind: str, visuals: _Visuals, asked: Tensor, shown: Tensor) -> Tensor:
    """Where in the flattened batch each image token is.

    Raises:
        ValueError: Placeholders and grids do not agree.
    """
    places = (asked & shown).flatten().nonzero()[:, 0]
    if len(places) != len(visuals.times):
        raise ValueError(f"there are {len(places)} {kind} placeholders, and the {kind} grids make {len(visuals.times)}")
    firsts, lasts = places[visuals.firsts], places[visuals.counts.cumsum(0) - 1]
    order = shown.flatten().cumsum(0)
    whole = (order[lasts] - order[firsts] == visuals.counts - 1) & (firsts // shown.shape[1] == lasts // shown.shape[1])
    if not whole.all():
        number = int(whole.long().argmin())
        raise ValueError(f"the placeholders of {kind} {number} are no single run; see the convention's video")
    return places


def _positions(placed: list[tuple[_Visuals, Tensor]], shown: Tensor, begin: Tensor) -> tuple[Tensor, Tensor]:
    """Every token's positions, ``[3, batch, seq]``, and the one that follows each row's, ``[batch, 1]``."""
    steps = shown.long().flatten()
    for visuals, places in placed:
        steps[places] = 0
        steps[places[visuals.firsts]] = visuals.advances
    steps = steps.view_as(shown)
    text = (begin + steps.cumsum(1) - steps).flatten()
    positions = text.repeat(3, 1)
    for visuals, places in placed:
        where, first = visuals.where, text[places[visuals.firsts]]
        positions[:, places] = first[where.entry] + torch.stack([visuals.times, where.row, where.column])
    positions = positions.view(3, *shown.shape)
    return positions, torch.where(shown, positions.amax(0), begin - 1).amax(1, keepdim=True) + 1


def _column(number: int | Sequence[int] | Tensor) -> Tensor:
    """A number for every row of the batch, or one for each, as ``[batch or 1, 1]`` on the host."""
    return torch.as_tensor(number, dtype=torch.int64, device=HOST).reshape(-1, 1)
