"""Which runs of a packed tower's rows attend to each other: frames, whole videos, or windows."""

import torch
from torch import Tensor

from belvedere.geometry.pack import Merge, Pack, device_of, host_grids, locate, per_entry

__all__ = ["cu_seqlens", "vision_clip_lengths", "vision_seq_lengths", "vision_window_order"]


def vision_seq_lengths(
    grid: Pack,
    window_size: int | None = None,
    patch_size: int | None = None,
    spatial_merge_size: Merge | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """How many patches each attending segment of a pack has: a frame's, or a window's where frames have windows.

    Args:
        grid: ``(t, h, w)`` of each picture or video.
        window_size: The side of a window, in pixels, in the windowed blocks of Qwen2.5-VL and its kin; their rows stand
            in `vision_window_order`. Without it a frame is one segment.
        patch_size: The side of a patch, in pixels. Windows only.
        spatial_merge_size: How many patches a side are folded into an image token. Windows only.
        device: Where the result goes.

    Returns:
        ``[segments]``: ``t`` segments of ``h * w`` for each entry, or every frame's windows, row by row, those at the
        right and lower border smaller where a side is no multiple of the window's.

    Raises:
        ValueError: A window without the size of a patch and of a fold, a grid that cannot be folded, or a window that
            holds no fold.
    """
    grids = host_grids(grid)
    if window_size is None:
        lengths = (grids[:, 1] * grids[:, 2]).repeat_interleave(grids[:, 0])
    elif patch_size is None or spatial_merge_size is None:
        raise ValueError("the windows of window_size hold whole folds: pass patch_size and spatial_merge_size too")
    else:
        lengths = _windows(grids, window_size, patch_size, spatial_merge_size).bincount()
    return lengths.to(device_of(device))


def vision_clip_lengths(grid: Pack, device: torch.device | str | None = None) -> Tensor:
    """How many patches each attending segment has in a tower whose videos attend over all their frames, as Kimi K2.5's.

    Args:
        grid: ``(t, h, w)`` of each picture or video.
        device: Where the result goes.

    Returns:
        ``[entries]``: ``t * h * w``.
    """
    return host_grids(grid).prod(1).to(device_of(device))


def vision_window_order(
    grid: Pack,
    window_size: int,
    patch_size: int,
    spatial_merge_size: Merge,
    device: torch.device | str | None = None,
) -> Tensor:
    """The way from merge-block order into the window order of Qwen2.5-VL's tower and its kin, over a whole pack.

    ``rows[order]`` stand in window order where ``rows``, a processor's patches, stand in merge-block order; with
    ``back = inverse(order)``, ``rows[order][back]`` are ``rows`` again. A fold's patches move as one, so
    ``order[:: merge**2] // merge**2`` does the same to merged rows. `window_order` says which patch of a picture each
    row of one frame is.

    Args:
        grid: ``(t, h, w)`` of each picture or video.
        window_size: The side of a window, in pixels; it holds whole folds only.
        patch_size: The side of a patch, in pixels.
        spatial_merge_size: How many patches a side are folded into an image token.
        device: Where the result goes.

    Returns:
        ``[patches]``: at each row of the tower, the row that it was. No patch leaves its frame.

    Raises:
        ValueError: A grid cannot be folded, or a window holds no fold.
    """
    windows = _windows(host_grids(grid), window_size, patch_size, spatial_merge_size)
    return windows.argsort(stable=True).to(device_of(device))


def cu_seqlens(lengths: Tensor) -> Tensor:
    """The bounds of segments as attention kernels take them: ``[segments + 1]`` in int32, from 0 to all patches."""
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))


def _windows(grids: Tensor, window_size: int, patch_size: int, merge: Merge) -> Tensor:
    """The number of each patch's window, ``[patches]``, counted through the pack; the patches in merge-block order."""
    folds = per_entry(merge, grids)
    sides = window_size // patch_size // folds * folds
    if not sides.all():
        raise ValueError(f"a window of {window_size} pixels a side holds no fold of patches of {patch_size}")
    where = locate(grids, folds)
    frames, rows, columns = grids.unbind(1)
    down, across = (rows + sides - 1) // sides, (columns + sides - 1) // sides
    counts = frames * down * across
    entry, side = where.entry, sides[where.entry]
    row = where.frame * down[entry] + where.row // side
    number: Tensor = (counts.cumsum(0) - counts)[entry] + row * across[entry] + where.column // side
    return number
