"""Facts about the tables of a training run: sizes, labels, columns, shared and shifted rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.trees import TableSeen
from mothtrap.tracing.boosting import interpolated
from mothtrap.tracing.boosting.models import Table
from mothtrap.tracing.boosting.samples import Sample, Samples

MAX_CLASSES: Final = 1000
MAX_VALUES: Final = 20
SHOWN: Final = 32
FRACTIONS, DISTINCT = 0.3, 0.9
"""Minimum share of rows with a fraction, and of distinct rows with a distinct value, in a
continuous column."""


def same(samples: Samples, one: Table, other: Table) -> bool:
    """Return whether two tables are the same, or have equal rows in the same order."""
    if one.key is other.key:
        return True
    a, b = samples.of(one.key), samples.of(other.key)
    if a is None or b is None or one.rows != other.rows:
        return False
    if not np.array_equal(a.digest_R, b.digest_R):
        return False
    ours, theirs = one.label(), other.label()
    if ours is None or theirs is None:
        return ours is theirs
    return np.array_equal(ours, theirs, equal_nan=True)


def describe(
    table: Table,
    sample: Sample | None,
    *,
    step: int,
    fit: str,
    site: str,
    classes: bool,
    scaled: bool,
    place: str,
) -> TableSeen:
    """Describe a table.

    Args:
        table: table that is trained or evaluated on.
        sample: rows of the table; None if no table could be read.
        step: step in progress.
        fit: label of the training run.
        site: name of the evaluation, "" for the training data.
        classes: labels are numbers of classes.
        scaled: the objective weights its classes.
        place: line of the training run, "" = unknown.
    """
    constant = None
    names = table.column_names()
    if sample is not None and len(sample.spread_C) == table.columns:
        fixed = np.flatnonzero(~sample.spread_C).tolist()
        constant = tuple(names[column] for column in fixed[:SHOWN])
    label_R = table.label()
    finite_R = label_R[np.isfinite(label_R)] if label_R is not None else np.empty(0)
    known = len(finite_R) > 0
    whole = known and bool((finite_R == np.round(finite_R)).all())
    value_counts = np.unique(finite_R, return_counts=True)[1] if whole else np.empty(0, int)
    few = len(value_counts) <= MAX_VALUES
    return TableSeen(
        step=step,
        fit=fit,
        site=site,
        rows=table.rows,
        columns=table.columns,
        missing_share=table.missing_share if table.missing_share is not None else _missing(sample),
        constant=constant,
        looked_at=len(sample.digest_R) if sample is not None else 0,
        label_counts=_counts(finite_R) if classes and whole else None,
        label_mean=float(finite_R.mean()) if known else None,
        label_std=float(finite_R.std()) if known else None,
        label_min=float(finite_R.min()) if known else None,
        label_max=float(finite_R.max()) if known else None,
        label_distinct=len(value_counts) if whole else None,
        value_counts=tuple(value_counts.tolist()) if few else (),
        label_nearest=float(np.abs(finite_R).min()) if known else None,
        reversed_bounds=table.reversed_bounds(),
        weighted=scaled or table.weighted,
        class_weights=table.class_weights() if classes and whole and table.weighted else (),
        **_groups(table.group_sizes(), label_R),
        location=place or None,
    )


def _groups(
    size_G: npt.NDArray[np.int64] | None, label_R: npt.NDArray[np.float64] | None
) -> dict[str, Any]:
    """Return the facts about groups in which rows are ranked."""
    if size_G is None:
        return {}
    about: dict[str, Any] = {
        "groups": len(size_G),
        "largest_group": int(size_G.max()),
        "single_groups": int((size_G == 1).sum()),
    }
    if label_R is not None and len(label_R) == size_G.sum() and size_G.min() > 0:
        first_G = np.cumsum(size_G) - size_G
        spread_G = np.maximum.reduceat(label_R, first_G) - np.minimum.reduceat(label_R, first_G)
        about["equal_groups"] = int((spread_G[size_G > 1] == 0).sum())
    return about


def shared(
    ours: Sample | None, theirs: Sample | None, *, step: int, site: str, place: str
) -> RowsShared | None:
    """Return how many rows of an evaluation table are also training rows; None if unknown."""
    if ours is None or theirs is None or not len(ours.digest_R) or not len(theirs.digest_R):
        return None
    known = np.unique(ours.digest_R)
    inspected, between = interpolated.between(ours.kept_RC, theirs.kept_RC)
    distinct = np.unique(theirs.digest_R)
    return RowsShared(
        step=step,
        module="the booster",
        argument="the features",
        source=site,
        train_rows=len(known),
        eval_rows=len(distinct),
        shared=int(np.isin(distinct, known).sum()),
        expected_share=0.0 if _is_fine(ours) else 1.0 - len(known) / len(ours.digest_R),
        inspected=inspected,
        between=between,
        location=place or None,
    )


def _is_fine(sample: Sample) -> bool:
    """Return whether a column has so many values that rows are not equal by chance."""
    rows = len(np.unique(sample.kept_RC, axis=0))
    fractions = (sample.kept_RC != np.round(sample.kept_RC)).mean(axis=0) > FRACTIONS
    fine = (len(np.unique(sample.kept_RC[:, c])) for c in np.flatnonzero(fractions))
    return any(count > DISTINCT * rows for count in fine)


def _missing(sample: Sample | None) -> float | None:
    return None if sample is None else float(np.isnan(sample.kept_RC).mean())


def _counts(label_R: npt.NDArray[np.float64]) -> tuple[int, ...] | None:
    if label_R.min() < 0 or label_R.max() >= MAX_CLASSES:
        return None
    return tuple(np.bincount(label_R.astype(np.int64)).tolist())
