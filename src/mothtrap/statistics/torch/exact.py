"""The slow pass: every column in float64, with non-finite elements excluded and counted.

Shape suffixes: N = elements, B = blocks, E = columns of `EXACT`, F = fields.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import torch

from mothtrap.statistics.segments import constant_row, summarize_segments
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats, merge
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.plain import SERIAL_SIZE, to_host

EXACT: Final = ("nan", "inf", "zero", "min", "max", "mean", "deviation_l2", "abs_sum", "l2")

_ACCELERATOR_BLOCK: Final = 1 << 24  # elements per block; limits the temporaries to 128 MB each


def exact_rows(flats: Mapping[int, torch.Tensor], columns: Collection[str]) -> dict[int, Floats]:
    """Reduce tensors to rows in float64; copied to the host once per device.

    Args:
        flats: real tensors of shape (N,), N > 0.
        columns: the columns to fill.

    Returns:
        float64 rows of shape (F,), by the keys of `flats`.
    """
    rows = {i: _host_row(flat, columns) for i, flat in flats.items() if flat.device.type == "cpu"}
    others = {i: flat for i, flat in flats.items() if i not in rows}
    reduced = to_host([reduce_exactly(flat, columns) for flat in others.values()])
    for (index, flat), part in zip(others.items(), reduced, strict=True):
        rows[index] = block_row(part, flat.numel())
    return rows


def reduce_exactly(flat_N: torch.Tensor, columns: Collection[str]) -> torch.Tensor:
    """Reduce blocks of a tensor on its device, without waiting for it.

    Args:
        flat_N: shape (N,), N > 0, any real type.
        columns: the columns to fill.

    Returns:
        float64, shape (B * E,), block after block; columns that were not requested are NaN.
    """
    blocks = torch.split(flat_N, _ACCELERATOR_BLOCK)
    return torch.cat([_reduce(block, columns) for block in blocks])


def block_row(reduced: Floats, count: int) -> Floats:
    """Return the row, shape (F,), of a tensor reduced by `reduce_exactly`.

    Args:
        reduced: result of `reduce_exactly`, float64, on the host.
        count: number of elements of the tensor.
    """
    reduced_BE = reduced.reshape(-1, len(EXACT))
    rows_BF = np.full((len(reduced_BE), WIDTH), np.nan)
    rows_BF[:, COLUMN["count"]] = _ACCELERATOR_BLOCK
    rows_BF[-1, COLUMN["count"]] = count - _ACCELERATOR_BLOCK * (len(reduced_BE) - 1)
    rows_BF[:, [COLUMN[name] for name in EXACT]] = reduced_BE
    return merge(rows_BF)


def _host_row(flat_N: torch.Tensor, columns: Collection[str]) -> Floats:
    first = np.zeros(1, dtype=np.intp)
    rows = []
    for block_N in torch.split(flat_N, SERIAL_SIZE):
        values_N: Floats = as_array(block_N.to(torch.float64))
        if values_N.any():
            rows.append(summarize_segments(values_N, first, columns)[0])
        else:  # all-zero gradients: a check is much faster than a reduction
            rows.append(constant_row(len(values_N), columns))
    return merge(np.stack(rows))


def _reduce(block_N: torch.Tensor, columns: Collection[str]) -> torch.Tensor:
    x_N = (block_N.cpu() if block_N.device.type == "mps" else block_N).to(torch.float64)
    finite_N = x_N - x_N == 0  # isfinite takes twice as long
    finite, nan = finite_N.sum(), x_N.isnan().sum()
    column = {"nan": nan, "inf": x_N.numel() - finite - nan}
    absent = torch.where(finite > 0, 0.0, torch.nan)
    if "zero" in columns:
        column["zero"] = (x_N == 0).sum()
    if "min" in columns:
        column["min"] = x_N.where(finite_N, torch.inf).amin() + absent
    if "max" in columns:
        column["max"] = x_N.where(finite_N, -torch.inf).amax() + absent
    x_N = x_N.nan_to_num(0.0, 0.0, 0.0)
    scale = x_N.abs().amax()
    # Values are divided by the largest one, so that squares and sums neither overflow nor vanish.
    scale = torch.where(scale > 0, scale, 1.0)
    x_N = x_N / scale
    if "abs_sum" in columns:
        column["abs_sum"] = x_N.abs().sum() * scale
    if "l2" in columns:
        column["l2"] = torch.linalg.vector_norm(x_N) * scale
    if "mean" in columns:
        mean = x_N.sum() / finite
        column["mean"] = mean * scale
        if "deviation_l2" in columns:
            apart_N = (x_N - mean).where(finite_N, 0.0)
            column["deviation_l2"] = torch.linalg.vector_norm(apart_N) * scale
    missing = torch.full_like(scale, torch.nan)
    return torch.stack([column.get(name, missing).to(torch.float64) for name in EXACT])
