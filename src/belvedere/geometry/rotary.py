"""The cos and sin by which a tower turns its queries and keys, from each patch's row and column.

A head's entries are turned in pairs, entry ``i`` with entry ``i + head_dim / 2``, each pair at a frequency of its own.
A tower spends half of its pairs on the row and half on the column. What differs between towers is which pairs those
are, and whether both axes have the same frequencies.
"""

import torch
from torch import Tensor

__all__ = ["rotary_alternating", "rotary_half_split", "rotary_interleaved"]


def rotary_half_split(position_ids: Tensor, head_dim: int, theta: float = 10000.0) -> tuple[Tensor, Tensor]:
    """The tables of the Qwen ViT and most others: the row turns the first half of the pairs, the column the second.

    Args:
        position_ids: Row and column of each patch, ``[patches, 2]``, as `vision_position_ids` has them.
        head_dim: The width of a head; a multiple of 4.
        theta: The base of the frequencies, which are the same for both axes.

    Returns:
        Cos and sin, ``[patches, head_dim]`` each, in float32.

    Raises:
        ValueError: A head's pairs cannot be shared out.
    """
    return _tables(_both_axes(position_ids, head_dim, theta).flatten(1))


def rotary_alternating(position_ids: Tensor, head_dim: int, theta: float = 10000.0) -> tuple[Tensor, Tensor]:
    """The tables of Kimi K2.5's tower: column and row take turns, pair by pair, at the same frequencies.

    Args:
        position_ids: Row and column of each patch, ``[patches, 2]``; Kimi's are row by row, not in merge-block order.
        head_dim: The width of a head; a multiple of 4.
        theta: The base of the frequencies.

    Returns:
        Cos and sin, ``[patches, head_dim]`` each, in float32.

    Raises:
        ValueError: A head's pairs cannot be shared out.
    """
    return _tables(_both_axes(position_ids, head_dim, theta).flip(1).transpose(1, 2).flatten(1))


def rotary_interleaved(position_ids: Tensor, head_dim: int, theta: float = 10000.0) -> tuple[Tensor, Tensor]:
    """The tables of Pixtral's tower: the axes share one ladder of frequencies, every other step the row's.

    The row turns the first half of the pairs and the column the second, so that only the frequencies are interleaved.

    Args:
        position_ids: Row and column of each patch, ``[patches, 2]``; Pixtral's are row by row.
        head_dim: The width of a head; even.
        theta: The base of the frequencies.

    Returns:
        Cos and sin, ``[patches, head_dim]`` each, in float32.

    Raises:
        ValueError: A head's entries are no pairs.
    """
    if head_dim % 2:
        raise ValueError(f"a head of {head_dim} entries has no pairs; pass an even head_dim")
    ladder = _frequencies(head_dim, theta, position_ids.device)
    places = position_ids.float()
    return _tables(torch.cat([places[:, :1] * ladder[0::2], places[:, 1:] * ladder[1::2]], dim=1))


def _both_axes(position_ids: Tensor, head_dim: int, theta: float) -> Tensor:
    """The angles of the row's pairs and the column's, ``[patches, 2, head_dim / 4]``."""
    if head_dim % 4:
        raise ValueError(f"the pairs of a head of {head_dim} entries are not even in number; pass a multiple of 4")
    return position_ids[:, :, None].float() * _frequencies(head_dim // 2, theta, position_ids.device)


def _frequencies(width: int, theta: float, device: torch.device) -> Tensor:
    """One frequency for every other entry of a width, from 1 down to almost ``1 / theta``; worked out on the host."""
    steps = torch.arange(0, width, 2, dtype=torch.float32, device="cpu") / width
    return (1.0 / (theta**steps)).to(device)


def _tables(angles: Tensor) -> tuple[Tensor, Tensor]:
    """Cos and sin of each pair's angle, once for either entry of it."""
    return angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
