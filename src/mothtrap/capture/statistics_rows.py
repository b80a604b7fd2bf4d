"""Rows of statistics from reducers, combined to the rows of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.capture.raw import Copier
from mothtrap.statistics.exponents import Counts
from mothtrap.statistics.summary import FIELDS, WIDTH, merge

Rows = npt.NDArray[np.float64]
OF_SEVERAL = frozenset({"inactive", "saturated", "update_ratio"})
"""Statistics that need more than one tensor."""
ArrayT = TypeVar("ArrayT", contravariant=True)


class Reducer(Copier[ArrayT], Protocol[ArrayT]):
    """The arithmetic of one array library: a module of `mothtrap.statistics`."""

    def summarize(self, tensors: Sequence[ArrayT], statistics: Iterable[str]) -> Rows:
        """Return one row of sufficient statistics per tensor."""

    def count_exponents_of(self, tensors: Sequence[ArrayT]) -> Counts:
        """Return counts by sign and power of two, int64, shape (tensors, 2, bins)."""

    def norms(self, tensors: Sequence[ArrayT]) -> Rows:
        """Return rows with only count, l2, nan and inf, as cheaply as possible."""


def join(
    rows: Sequence[tuple[Sequence[int], Rows]],
) -> tuple[npt.NDArray[np.uint32], Rows]:
    """Combine rows; several rows of one tensor (micro-batches) become one."""
    if not rows:
        return np.empty(0, np.uint32), np.empty((0, WIDTH))
    order: list[int] = []
    parts = []
    for numbers, part in rows:
        order += numbers
        parts.append(part)
    ids = np.array(order, np.uint32)
    summary_TF = np.concatenate(parts) if len(parts) > 1 else parts[0]
    if len(set(order)) == len(order):
        return ids, summary_TF
    unique, inverse = np.unique(ids, return_inverse=True)
    return unique, np.stack([merge(summary_TF[inverse == i]) for i in range(len(unique))])


def with_fields(
    ids: npt.NDArray[np.uint32], summary_TF: Rows, fields: Mapping[int, Mapping[str, float]]
) -> tuple[npt.NDArray[np.uint32], Rows]:
    """Write columns into the rows of their tensors, adding missing rows."""
    if not fields:
        return ids, summary_TF
    new = [i for i in fields if i not in ids]
    ids = np.concatenate([ids, np.array(new, np.uint32)])
    summary_TF = np.concatenate([summary_TF, np.full((len(new), WIDTH), np.nan)])
    for row, tensor_id in enumerate(ids.tolist()):
        for name, value in fields.get(tensor_id, {}).items():
            summary_TF[row, FIELDS.index(name)] = value
    return ids, summary_TF
