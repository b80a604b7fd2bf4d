"""The fast pass: reductions of float32 chunks, short enough that their sums stay accurate.

It uses only operations that torch executes at memory speed. The chunks are merged in float64 on the
host, where `unreliable` and `cancelled` decide whether a slower pass is needed.

Shape suffixes: N = elements, C = chunks, K = elements of a chunk, P = passes, F = fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.summary import COLUMN, WIDTH, Floats

HOST_CHUNK: Final = 2048
"""Number of elements that torch's CPU norm adds in float32 with a relative error below 2e-6,
measured on constant tensors, the worst case (4096: 2.5e-6, 16384: 1e-5, ten million: 8e-3).
"""

ACCELERATOR_CHUNK: Final = 8192
"""Longer, so that there is less to transfer; an accelerator adds in a tree."""

_HOST_BLOCK: Final = 60 * HOST_CHUNK
"""Number of elements per block: few enough to stay in the cache between passes. Smaller blocks,
which torch would not distribute over threads, would double the time because of the calls (measured:
12.3 ms at 30720 elements, 6.1 ms at these, for five million).
"""

_ACCELERATOR_BLOCK: Final = 1 << 26  # elements per block: temporaries of 256 MB each

_CANCELLATION: Final = 4.0
"""Largest ratio of the sum of squares to the sum of squared deviations at which the sum of squares
minus n * mean^2 gives std with an accuracy of 1e-5: half of 4 x 2 x 2e-6.
"""

UNDERFLOW_RMS: Final = 1e-16
"""Root mean square below which vanishing float32 squares (below 1.2e-38) affect the result."""

_ROUNDING_RMS: Final = 1e-8
"""Root mean square above which float32 can represent the squared difference of two float32 numbers
(6e-8 x 1e-8 squared is 4e-31).
"""


def chunk_length(device: torch.device) -> int:
    """Return the number of elements in a chunk."""
    return HOST_CHUNK if device.type == "cpu" else ACCELERATOR_CHUNK


def fits(dtype: torch.dtype) -> bool:
    """Return whether float32 can represent every value of the type."""
    if dtype.is_floating_point:
        return dtype.itemsize <= 4
    return dtype == torch.bool or dtype.itemsize <= 2


def passes_for(columns: Collection[str]) -> tuple[str, ...]:
    """Return the reductions that the columns need, in a fixed order."""
    passes = {name for name in ("min", "max", "abs_sum", "l2", "zero") if name in columns}
    if "deviation_l2" in columns:
        passes |= {"sum", "l2"}
    # One extreme alone does not detect an infinity of the other sign.
    meets_all = passes & {"abs_sum", "l2"} or {"min", "max"} <= passes
    if "mean" in columns or ("nan" in columns and not meets_all):
        passes.add("sum")
    return tuple(name for name in _REDUCE if name in passes)


def _zeros(x_CK: torch.Tensor) -> torch.Tensor:
    # Convert to floats, because torch adds booleans ten times slower than float32.
    return torch.eq(x_CK, 0, out=torch.empty_like(x_CK)).sum(1)


_REDUCE: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = MappingProxyType(
    {
        "sum": lambda x_CK: x_CK.sum(1),
        "l2": lambda x_CK: torch.linalg.vector_norm(x_CK, dim=1),
        "min": lambda x_CK: x_CK.amin(1),
        "max": lambda x_CK: x_CK.amax(1),
        "abs_sum": lambda x_CK: x_CK.abs().sum(1),
        "zero": _zeros,
    }
)


def reduce_chunks(
    flat_N: torch.Tensor, passes: tuple[str, ...], *, about_pivot: bool = False
) -> torch.Tensor:
    """Reduce every chunk of a tensor with every pass, on its device.

    Args:
        flat_N: shape (N,), N a positive multiple of the chunk length, of a type that `fits`.
        passes: names from `passes_for`.
        about_pivot: first subtract the chunk's first element, which becomes an additional, last
            pass.

    Returns:
        float32, shape ((P + about_pivot) * C,), one pass after another.
    """
    device = flat_N.device
    length = chunk_length(device)
    block = _HOST_BLOCK if device.type == "cpu" else _ACCELERATOR_BLOCK
    parts = []
    for at in range(0, flat_N.numel(), block):
        x_CK = flat_N[at : at + block].to(torch.float32).view(-1, length)
        pivot_C1 = x_CK[:, :1]
        if about_pivot:
            x_CK = x_CK - pivot_C1
        reduced = [_REDUCE[name](x_CK) for name in passes]
        parts.append(torch.stack([*reduced, pivot_C1[:, 0]] if about_pivot else reduced))
    return (torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]).view(-1)


def chunk_rows(
    reduced: Sequence[Floats],
    passes: tuple[str, ...],
    heads: Sequence[torch.Tensor],
    columns: Collection[str],
) -> list[Floats]:
    """Return the rows of chunks, without checking whether they are accurate.

    Args:
        reduced: float64, result of `reduce_chunks` for each head, on the host. About a pivot, there
            is one more pass, and `l2` of the rows is the norm of the elements minus their pivots.
        passes: as passed to `reduce_chunks`.
        heads: as passed to `reduce_chunks`; only lengths and devices are used.
        columns: the columns to fill.

    Returns:
        float64, shape (C, F) for each head.
    """
    if not heads:
        return []
    lengths = [chunk_length(head.device) for head in heads]
    chunks = [head.numel() // length for head, length in zip(heads, lengths, strict=True)]
    reduced_PC = np.concatenate(
        [part.reshape(-1, count) for part, count in zip(reduced, chunks, strict=True)], axis=1
    )
    by_pass = dict(zip((*passes, "pivot"), reduced_PC, strict=False))
    length_C = np.repeat(lengths, chunks)
    rows_CF = np.full((len(length_C), WIDTH), np.nan)
    rows_CF[:, COLUMN["count"]] = length_C
    if passes != ("zero",):
        rows_CF[:, [COLUMN["nan"], COLUMN["inf"]]] = 0.0
    for name in ("zero", "min", "max", "abs_sum", "l2"):
        if name in by_pass:
            rows_CF[:, COLUMN[name]] = by_pass[name]
    if "sum" in by_pass:
        rows_CF[:, COLUMN["mean"]] = by_pass["sum"] / length_C + by_pass.get("pivot", 0.0)
    if "deviation_l2" in columns:
        square_C = by_pass["l2"] ** 2 - by_pass["sum"] ** 2 / length_C
        rows_CF[:, COLUMN["deviation_l2"]] = np.sqrt(np.maximum(square_C, 0.0))
    return np.split(rows_CF, np.cumsum(chunks)[:-1])


def unreliable(rows_TF: Floats, passes: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Return a mask of merged rows with non-finite elements, or sums outside float32's range.

    Args:
        rows_TF: float64, merged from `chunk_rows`.
        passes: as passed to `reduce_chunks`.

    Returns:
        Shape (T,), True if an exact pass is needed.
    """
    filled = [COLUMN["mean" if name == "sum" else name] for name in passes]
    wrong_T = np.logical_not(np.isfinite(rows_TF[:, filled]).all(axis=1))
    if "l2" in passes:
        np.logical_or(wrong_T, _rms(rows_TF, "l2") < UNDERFLOW_RMS, out=wrong_T)
    return wrong_T


def cancelled(rows_TF: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask, shape (T,), of rows whose `deviation_l2` suffers from cancellation."""
    l2_T, deviation_T = rows_TF[:, COLUMN["l2"]], rows_TF[:, COLUMN["deviation_l2"]]
    small_T: npt.NDArray[np.bool_] = l2_T > np.sqrt(_CANCELLATION) * deviation_T
    return small_T


def unreliable_about_pivot(pivot_TF: Floats, rows_TF: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask, shape (T,), of rows for which the pass about a pivot failed.

    Args:
        pivot_TF: float64, merged from `chunk_rows` about a pivot.
        rows_TF: float64, the rows of the same tensors about zero.
    """
    vanishing_T = (pivot_TF[:, COLUMN["l2"]] > 0) | (_rms(rows_TF, "l2") < _ROUNDING_RMS)
    wrong_T: npt.NDArray[np.bool_] = cancelled(pivot_TF) | (
        vanishing_T & (_rms(pivot_TF, "deviation_l2") < UNDERFLOW_RMS)
    )
    return wrong_T


def _rms(rows_TF: Floats, column: str) -> Floats:
    rms_T: Floats = rows_TF[:, COLUMN[column]] / np.sqrt(rows_TF[:, COLUMN["count"]])
    return rms_T
