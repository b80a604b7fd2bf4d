"""Rows of device tensors: reduced in pieces on the device, combined on the host.

Shape suffixes: T = tensors, P = pieces, E = columns of `exact.EXACT`, F = fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.summary import COLUMN, WIDTH, Floats, merge_segments
from mothtrap.statistics.torch.exact import EXACT, reduce_exactly

BLOCK: Final = 1 << 24
"""Elements per block for reductions with torch operations; limits temporaries to 128 MB each."""
_FILLED: Final = [COLUMN[name] for name in EXACT]


@dataclass(slots=True)
class Pieces:
    """Partial reductions of some tensors.

    Attributes:
        results: on the device, float64, shape (P * E,) each.
        owners: key of the tensor of each piece; pieces of one tensor are adjacent.
        counts: number of elements of each piece.
    """

    results: list[torch.Tensor] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


def reduce_by_operations(flats: Mapping[int, torch.Tensor], columns: Collection[str]) -> Pieces:
    """Reduce tensors with torch operations, without waiting for the device.

    About twenty launches for each block of a tensor, so this is only for tensors that no kernel
    supports.

    Args:
        flats: real tensors of shape (N,), N > 0.
        columns: the columns to fill.
    """
    pieces = Pieces()
    for key, flat in flats.items():
        for block in torch.split(flat, BLOCK):
            pieces.results.append(reduce_exactly(block, columns))
            pieces.owners.append(key)
            pieces.counts.append(block.numel())
    return pieces


def reduce_by_kernel(
    flats: Mapping[int, torch.Tensor], upload: Callable[[npt.NDArray[np.int64]], torch.Tensor]
) -> tuple[Pieces, dict[int, torch.Tensor]]:
    """Reduce tensors with one launch per type, without waiting for the device.

    Args:
        flats: as for `reduce_by_operations`.
        upload: copies a table to the device.

    Returns:
        The pieces, and the tensors of types that the kernel does not support.

    Raises:
        ImportError: Triton is not installed.
        Exception: any exception that Triton raises if it cannot compile.
    """
    from mothtrap.statistics.torch import multi_tensor  # slow import, only needed with a device

    by_dtype: dict[torch.dtype, dict[int, torch.Tensor]] = {}
    for key, flat in flats.items():
        plain = flat.view(torch.uint8) if flat.dtype == torch.bool else flat
        by_dtype.setdefault(plain.dtype, {})[key] = plain.contiguous()
    pieces, others = Pieces(), dict[int, torch.Tensor]()
    span = multi_tensor.span_of(sum(flat.numel() for flat in flats.values()))
    for dtype, group in by_dtype.items():
        if dtype not in multi_tensor.KINDS:
            others |= group
            continue
        pieces.results.append(multi_tensor.reduce_pieces([*group.values()], span, upload))
        for key, flat in group.items():
            for begin in range(0, flat.numel(), span):
                pieces.owners.append(key)
                pieces.counts.append(min(span, flat.numel() - begin))
    return pieces, others


def merged(
    numbers: Floats, pieces: Pieces, columns: Collection[str]
) -> tuple[npt.NDArray[np.intp], Floats]:
    """Combine the rows of tensors from the rows of their pieces.

    Args:
        numbers: results on the host, float64, shape (P * E,).
        pieces: pieces of the tensors.
        columns: requested columns.

    Returns:
        Keys of the tensors, shape (T,), and their rows, float64, shape (T, F).
    """
    rows_PF = np.full((len(pieces.owners), WIDTH), np.nan)
    rows_PF[:, _FILLED] = numbers.reshape(-1, len(EXACT))
    rows_PF[:, COLUMN["count"]] = pieces.counts
    owner_P = np.array(pieces.owners, np.intp)
    starts_T = np.flatnonzero(np.diff(owner_P, prepend=-1))
    rows_TF = merge_segments(rows_PF, starts_T)
    rows_TF[:, [index for name, index in COLUMN.items() if name not in columns]] = np.nan
    return owner_P[starts_T], rows_TF
