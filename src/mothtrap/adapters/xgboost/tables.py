"""Data of a boosted model: shapes, labels, constant columns, and rows that sets share."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xgboost

from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.trees import TableSeen
from mothtrap.statistics import numpy as arithmetic

MAX_CELLS: Final = 1 << 22
"""Cells of a table that are looked at, at most, in rows evenly spread: some 50 ms, once."""
MAX_CLASSES: Final = 1000
SHOWN: Final = 32
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows of a table as the library sees them, read when it is made.

    `digest_R` is of each row; `spread_C` says of each column whether it has two values.
    """

    digest_R: npt.NDArray[np.uint64]
    spread_C: npt.NDArray[np.bool_]


class Tables:
    """Looks into tables when they are made, and describes those that are trained on."""

    def __init__(self) -> None:
        self._samples: weakref.WeakKeyDictionary[xgboost.DMatrix, Sample | None] = (
            weakref.WeakKeyDictionary()
        )

    def made(self, table: xgboost.DMatrix, data: Any) -> None:
        """Look into the data of which a table has just been made; they are not held."""
        if data is not None:
            self._samples[table] = _sample(data)

    def same(self, one: xgboost.DMatrix, other: xgboost.DMatrix) -> bool:
        """Return whether two tables are one, or were made of equal rows in the same order."""
        if one is other:
            return True
        a, b = self._sample(one), self._sample(other)
        if a is None or b is None or one.num_row() != other.num_row():
            return False
        labels = np.array_equal(one.get_label(), other.get_label(), equal_nan=True)
        return labels and np.array_equal(a.digest_R, b.digest_R)

    def describe(
        self,
        table: xgboost.DMatrix,
        *,
        step: int,
        fit: str,
        site: str,
        classes: bool,
        scaled: bool,
        place: str,
    ) -> TableSeen:
        """Return what is known of a table.

        Args:
            table: that is trained or evaluated on.
            step: in progress.
            fit: label of the training.
            site: name of the evaluation, "" for the training data.
            classes: labels are numbers of classes.
            scaled: the objective weighs its classes.
            place: line of the training, "" = unknown.
        """
        rows, columns = table.num_row(), table.num_col()
        cells, sample = rows * columns, self._sample(table)
        names = table.feature_names or [f"f{column}" for column in range(columns)]
        constant = None
        if sample is not None and len(sample.spread_C) == columns:
            fixed = np.flatnonzero(~sample.spread_C).tolist()
            constant = tuple(names[column] for column in fixed[:SHOWN])
        label_R = table.get_label()
        finite_R = label_R[np.isfinite(label_R)].astype(np.float64)
        known = len(finite_R) > 0
        return TableSeen(
            step=step,
            fit=fit,
            site=site,
            rows=rows,
            columns=columns,
            missing_share=1.0 - table.num_nonmissing() / cells if cells else None,
            constant=constant,
            looked_at=len(sample.digest_R) if sample is not None else 0,
            label_counts=_counts(finite_R) if classes and known else None,
            label_mean=float(finite_R.mean()) if known else None,
            label_std=float(finite_R.std()) if known else None,
            label_min=float(finite_R.min()) if known else None,
            label_max=float(finite_R.max()) if known else None,
            weighted=scaled or table.get_weight().size > 0,
            location=place or None,
        )

    def shared(
        self, train: xgboost.DMatrix, table: xgboost.DMatrix, *, step: int, site: str, place: str
    ) -> RowsShared | None:
        """Return how many rows of an evaluation are trained on; None where that is not known."""
        ours, theirs = self._sample(train), self._sample(table)
        if ours is None or theirs is None or not len(ours.digest_R) or not len(theirs.digest_R):
            return None
        known = np.unique(ours.digest_R)
        distinct = np.unique(theirs.digest_R)
        return RowsShared(
            step=step,
            module="the booster",
            argument="the features",
            source=site,
            train_rows=len(known),
            eval_rows=len(distinct),
            shared=int(np.isin(distinct, known).sum()),
            expected_share=1.0 - len(known) / len(ours.digest_R),
            location=place or None,
        )

    def _sample(self, table: xgboost.DMatrix) -> Sample | None:
        """The sample of a table; of one made before anything was watched its own copy is read."""
        if table not in self._samples:
            self._samples[table] = _copied(table)
        return self._samples[table]


def _copied(table: xgboost.DMatrix) -> Sample | None:
    rows, columns = table.num_row(), table.num_col()
    if type(table) is not xgboost.DMatrix or not 0 < rows * columns <= MAX_CELLS:
        return None  # a quantile matrix has bins in the place of values
    stored = table.get_data()
    values_RC = np.full((rows, columns), np.nan, np.float32)
    values_RC[np.repeat(np.arange(rows), np.diff(stored.indptr)), stored.indices] = stored.data
    return _looked_at(values_RC)


def _sample(data: Any) -> Sample | None:
    """Look at rows of an array, a frame or a sparse matrix; None of what is none of these."""
    shape = getattr(data, "shape", None)
    if shape is None or len(shape) != 2 or not all(shape):
        return None
    rows, columns = int(shape[0]), int(shape[1])
    every = max(1, -(-rows * columns // MAX_CELLS))
    values_RC = _values(data, every)
    if values_RC is None:
        return None
    return _looked_at(values_RC)


def _looked_at(values_RC: Floats) -> Sample:
    columns = values_RC.shape[1]
    plain_RC = np.where(np.isnan(values_RC), np.float32(np.nan), values_RC) + np.float32(0.0)
    first_C = plain_RC[:1]
    differs_RC = (plain_RC != first_C) & ~(np.isnan(plain_RC) & np.isnan(first_C))
    return Sample(arithmetic.row_digests(plain_RC, columns), differs_RC.any(axis=0))


def _values(data: Any, every: int) -> Floats | None:
    if isinstance(data, np.ndarray):
        chosen: Any = data[::every]
    elif hasattr(data, "iloc"):
        chosen = data.iloc[::every]
        codes = {
            name: chosen[name].cat.codes.to_numpy() if hasattr(chosen[name], "cat") else None
            for name in chosen.columns
        }
        if any(code is not None for code in codes.values()):
            columns = [c if c is not None else chosen[name].to_numpy() for name, c in codes.items()]
            chosen = np.column_stack(columns)
    elif hasattr(data, "tocsr"):
        chosen = data.tocsr()[::every].toarray() if data.shape[1] <= MAX_CLASSES else None
    else:
        return None
    if chosen is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        values_RC: Floats = np.ascontiguousarray(np.asarray(chosen, np.float32))
    return values_RC


def _counts(label_R: npt.NDArray[np.float64]) -> tuple[int, ...] | None:
    if not np.array_equal(label_R, np.round(label_R)):
        return None
    if label_R.min() < 0 or label_R.max() >= MAX_CLASSES:
        return None
    return tuple(np.bincount(label_R.astype(np.int64)).tolist())
