"""Rows of sufficient statistics of PyTorch tensors.

Shape suffixes: T = tensors, F = fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.segments import constant_row
from mothtrap.statistics.summary import COLUMN, EMPTY, Floats, columns_for, merge
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.passes import reduce_all
from mothtrap.statistics.torch.plain import flat_elements, has_own_dispatch

_VALUES: Final = {"nan", "zero"}
"""One of these columns is requested whenever values are read."""

_columns = functools.cache(columns_for)


def summarize(tensors: Sequence[torch.Tensor], statistics: Collection[str]) -> Floats:
    """Reduce each tensor to one row of sufficient statistics.

    Results are copied to the host once for all tensors of a device, and once more if a tensor is
    not finite, or if float32 sums would be inaccurate.

    Args:
        tensors: tensors of any shape, layout and real, integer, boolean (as 0 and 1) or complex
            type. A complex tensor counts as its real and imaginary parts, two elements each, a
            sparse one includes the zeros that it omits, and a distributed one counts as this
            worker's shard. A tensor that cannot be read (on `meta`, or of a type with a
            user-defined `__torch_dispatch__`) has the row `EMPTY`.
        statistics: ids from `summary.STATISTICS`; columns that none of them needs may be NaN.

    Returns:
        float64, shape (T, F), rows as described in `summary`. Compared with float64 arithmetic,
        `mean` is off by at most 1e-5 of the mean magnitude, and the others by 1e-5 of themselves;
        counts are exact.

    Raises:
        UnknownNameError: there is no such statistic; the message suggests one.
    """
    return _summarize(tensors, statistics, compiled.summaries)


def _summarize(
    tensors: Sequence[torch.Tensor],
    statistics: Collection[str],
    in_place: Callable[[compiled.Integers], tuple[Floats, npt.NDArray[np.bool_]]],
) -> Floats:
    columns = _columns(frozenset(statistics))
    if tensors and columns & _VALUES:
        places_T3 = compiled.places(tensors)
        if (places_T3[:, 2] >= 0).all():  # the usual case on a host
            rows_TF, right_T = in_place(places_T3)
            if right_T.all():
                return rows_TF
    with torch.no_grad(), np.errstate(all="ignore"):  # NaN and Inf are valid data here
        return _rows(tensors, columns)


def summarize_and_digest(
    tensors: Sequence[torch.Tensor], statistics: Collection[str], digests: dict[int, int]
) -> Floats:
    """Like `summarize`, but also digest contiguous host tensors in the same pass.

    Args:
        tensors: as for `summarize`.
        statistics: as for `summarize`.
        digests: receives the digests (`raw.digest`) of tensors read in this way, by identity.
    """

    def read(places_T3: compiled.Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
        rows_TF, right_T, digest_T = compiled.digested_summaries(tensors, places_T3)
        digests.update(zip(map(id, tensors), digest_T.tolist(), strict=True))
        return rows_TF, right_T

    return _summarize(tensors, statistics, read)


def nonfinite_counts(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the numbers of NaN and infinite elements."""
    row_F = summarize([tensor], ("nan", "inf"))[0]
    return int(row_F[COLUMN["nan"]]), int(row_F[COLUMN["inf"]])


def _rows(tensors: Sequence[torch.Tensor], columns: frozenset[str]) -> Floats:
    rows_TF = np.tile(constant_row(0, columns), (len(tensors), 1))
    flats: dict[int, torch.Tensor] = {}
    implicit: dict[int, int] = {}
    for index, tensor in enumerate(tensors):
        if tensor.is_meta or has_own_dispatch(tensor):
            rows_TF[index] = EMPTY
            continue
        flat, zeros = flat_elements(tensor)
        if flat.numel():
            flats[index] = flat
        if zeros:
            implicit[index] = zeros
    if columns & _VALUES:
        for index, row_F in reduce_all(flats, columns).items():
            rows_TF[index] = row_F
    else:
        for index, flat in flats.items():
            rows_TF[index, COLUMN["count"]] = flat.numel()
    for index, zeros in implicit.items():
        rows_TF[index] = merge(np.stack([rows_TF[index], constant_row(zeros, columns)]))
    return rows_TF
