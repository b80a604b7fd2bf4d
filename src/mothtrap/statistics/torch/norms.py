"""Inspection of values at every step: whether all are finite, and their norm.

Everything here runs on the training thread, so the number of calls matters as well as the number of
bytes: one list operation for all small tensors, and one per large tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.products import dot
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.chunks import HOST_CHUNK, UNDERFLOW_RMS
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.plain import SERIAL_SIZE
from mothtrap.statistics.torch.rows import summarize

_SMALL: Final = 4 * HOST_CHUNK
"""Maximum number of elements of a tensor whose norm is computed in float32 at once, with an error
of at most 8e-6 (measured on constant tensors, the worst case).
"""

_LOOKED_AT: Final = [COLUMN["nan"], COLUMN["inf"], COLUMN["l2"]]

_COUNTED: Final = [COLUMN["nan"], COLUMN["inf"]]
_IS_LOOKED_AT: Final = np.isin(np.arange(WIDTH), [COLUMN["count"], *_LOOKED_AT])

_PLAIN: Final = (torch.float32, torch.bfloat16, torch.float16)


def norms(tensors: Sequence[torch.Tensor]) -> Floats:
    """Return `count`, `nan`, `inf` and `l2` of each tensor, the cheapest statistics.

    Tensors that are not plain dense tensors on the CPU are handled by `summarize`. Tensors that are
    not finite, or whose squares overflow, are handled separately.

    Args:
        tensors: as for `summarize`.

    Returns:
        float64, shape (T, F); the other columns are NaN.
    """
    places_T3 = compiled.places(tensors)
    direct_T = places_T3[:, 2] >= 0
    if len(tensors) and direct_T.all():
        l2_T = compiled.norms(places_T3)
        good_T = np.isfinite(l2_T)
        if not good_T.all():
            return _rows(tensors, places_T3[:, 1], l2_T, good_T)
        rows_TF = np.full((len(tensors), WIDTH), np.nan)  # as in `_rows`, at every step
        rows_TF[:, COLUMN["count"]], rows_TF[:, COLUMN["l2"]] = places_T3[:, 1], l2_T
        rows_TF[:, _COUNTED] = 0.0
        return rows_TF
    with torch.no_grad():
        rows_TF = np.empty((len(tensors), WIDTH))
        direct = np.flatnonzero(direct_T).tolist()
        rows_TF[direct] = _direct_rows([tensors[i] for i in direct], places_T3[direct_T])
        others = np.flatnonzero(~direct_T).tolist()
        quick = [i for i in others if _is_plain(tensors[i])]
        rows_TF[quick] = _quick_rows([tensors[i] for i in quick])
        if slow := sorted({*others} - {*quick}):
            slow_TF = summarize([tensors[i] for i in slow], ("l2", "nan", "inf"))
            rows_TF[slow] = np.where(_IS_LOOKED_AT, slow_TF, np.nan)
        return rows_TF


def _direct_rows(tensors: Sequence[torch.Tensor], places_T3: compiled.Integers) -> Floats:
    if not tensors:
        return np.empty((0, WIDTH))
    l2_T = compiled.norms(places_T3)
    return _rows(tensors, places_T3[:, 1], l2_T, np.isfinite(l2_T))


def _quick_rows(tensors: Sequence[torch.Tensor]) -> Floats:
    if not tensors:
        return np.empty((0, WIDTH))
    l2_T = _quick_norms(tensors)
    count_T = np.array([tensor.numel() for tensor in tensors], np.float64)
    vanished_T = (l2_T != 0) & (l2_T <= UNDERFLOW_RMS * np.sqrt(count_T))
    return _rows(tensors, count_T, l2_T, np.isfinite(l2_T) & ~vanished_T)


def _rows(
    tensors: Sequence[torch.Tensor],
    count_T: npt.NDArray[Any],
    l2_T: Floats,
    good_T: npt.NDArray[np.bool_],
) -> Floats:
    """Return rows of tensors; tensors with an unusable norm are inspected again."""
    rows_TF = np.full((len(tensors), WIDTH), np.nan)
    rows_TF[:, COLUMN["count"]] = count_T
    rows_TF[:, COLUMN["nan"]] = rows_TF[:, COLUMN["inf"]] = 0.0
    rows_TF[:, COLUMN["l2"]] = l2_T
    if not good_T.all():
        for at in np.flatnonzero(~good_T).tolist():
            if tensors[at].dtype is torch.float64:
                row_F = summarize([tensors[at]], ("l2", "nan", "inf"))[0]
                rows_TF[at, _LOOKED_AT] = row_F[_LOOKED_AT]
            else:
                rows_TF[at, _LOOKED_AT] = _finite_part(tensors[at])
    return rows_TF


def _finite_part(tensor: torch.Tensor) -> tuple[int, int, float]:
    """Count NaN and Inf, and compute the norm of all other elements in float64.

    A job may be NaN for hours, and most of its tensors are then entirely NaN, which takes only one
    comparison.
    """
    nan = inf = 0
    square = 0.0
    with np.errstate(all="ignore"):  # NaN and Inf are valid data here
        for block in _blocks(tensor.detach()):
            values_N = as_array(block if block.dtype is torch.float32 else block.float())
            unordered = int(np.count_nonzero(np.isnan(values_N)))
            nan += unordered
            if unordered == values_N.size:
                continue
            finite_N = values_N[np.isfinite(values_N)].astype(np.float64)
            inf += values_N.size - unordered - finite_N.size
            square += dot(finite_N, finite_N)
    return nan, inf, math.sqrt(square)


def _blocks(values: torch.Tensor) -> Sequence[torch.Tensor]:
    if values.numel() <= SERIAL_SIZE:
        return (values,)
    return torch.split(values.view(-1), SERIAL_SIZE)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.dtype in _PLAIN
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and tensor.numel() > 0
    )


def _quick_norms(tensors: Sequence[torch.Tensor]) -> Floats:
    """Return norms of plain tensors from their parts: chunks of a large tensor, and its end."""
    owners: list[int] = []
    wholes: list[torch.Tensor] = []
    chunked: list[torch.Tensor] = []
    chunk_owners: list[tuple[int, int]] = []
    for index, tensor in enumerate(tensors):
        count = tensor.numel()
        if count <= _SMALL:
            wholes.append(tensor)
            owners.append(index)
            continue
        flat = tensor.detach().view(-1)
        chunks, rest = divmod(count, HOST_CHUNK)
        head = flat[: count - rest].view(chunks, HOST_CHUNK)
        chunked.append(torch.linalg.vector_norm(head, dim=1, dtype=torch.float32))
        chunk_owners.append((index, chunks))
        if rest:
            wholes.append(flat[count - rest :])
            owners.append(index)
    squares = np.zeros(len(tensors))
    with np.errstate(all="ignore"):  # NaN and Inf are valid data here
        if wholes:
            # No public function returns the norms of a list of tensors; torch's clip_grad_norm_
            # uses this one.
            parts = torch.stack(torch._foreach_norm(wholes, 2, dtype=torch.float32))
            np.add.at(squares, owners, as_array(parts).astype(np.float64) ** 2)
        if chunked:
            parts_C = as_array(torch.cat(chunked)).astype(np.float64)
            counts = [chunks for _, chunks in chunk_owners]
            starts = np.cumsum([0, *counts[:-1]])
            squares[[i for i, _ in chunk_owners]] += np.add.reduceat(parts_C**2, starts)
        return np.sqrt(squares)
