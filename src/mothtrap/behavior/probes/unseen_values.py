"""BEH603: new rows have values that did not occur in the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import binomial_above
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Column
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

BEYOND = 0.1
"""A number is new if it is outside of the range by more than this share of it; chosen by hand."""
SKEWED = 30
"""Largest number relative to the smallest from which logarithms count, too; chosen by hand."""
Kind = tuple[npt.NDArray[np.bool_], float, str]


@frozen
class UnseenValues(Probe):
    """New rows have categories, numbers, or gaps that the training rows do not have.

    What it detects:
        Categories that no training row has, numbers outside of the range of the training rows by
        more than 10 % of it, missing values in a column that had none, and columns that have become
        constant. For skewed positive numbers, such as incomes, 10 % of the range of the logarithms
        is enough. Without training rows, the held-out rows are used instead.

    Why it matters:
        The model has learned nothing about such values. Its predictions are guesses, even if they
        look confident.

    Fires:
        When at least 1 % of the new rows have such a value, and the number of these rows has a
        p-value below 1e-6. The expected number follows from the number of training rows. For
        categories, it follows from the categories that occur in only one half of the training rows.

    Stays quiet:
        Columns in which new categories are common, such as names. Small training sets, beyond
        whose range new rows are expected.

    What to do:
        - Refuse or flag such rows until the model is trained on them.
        - Check whether a code, a unit, or a default value has changed upstream.

    References:
        Breck et al., Data validation for machine learning, 2019.
    """

    code = "BEH603"
    severity = Severity.WARNING
    explains = ("drifted", "anomalous_rows")
    needs_new = True

    least: float = threshold(0.01, unit="share of the new rows", source="chosen by hand")
    p_limit: float = threshold(1e-6, unit="p-value", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Find new values in each column."""
        new = subject.new
        assert new is not None
        rng = subject.rng("unseen")
        for column in subject.usual.table.columns:
            after = new.table.column(column.name)
            for bad_R, usual, what in _kinds(column, after, rng):
                share = float(bad_R.mean())
                p = binomial_above(int(bad_R.sum()), len(bad_R), usual)
                if share < self.least or p >= self.p_limit:
                    continue
                yield Suspicion(
                    message=f"{int(bad_R.sum()):,} of {len(bad_R):,} new rows ({percent(share, 1)})"
                    f" have {what}",
                    features=(column.name,),
                    rows=new.rows_R[bad_R],
                    exact=True,
                    evidence={"n": len(bad_R), "value": share, "reference": self.least},
                )


def _kinds(before: Column, after: Column, rng: np.random.Generator) -> Iterator[Kind]:
    """Yield rows with new values of one kind, the share that is usual, and words for the values."""
    name, count = before.name, len(before.missing_R)
    if not before.missing_R.any():
        yield after.missing_R, 1 / (count + 1), f"no value of {name}; before, all rows had one"
    if before.number_R is not None and after.number_R is not None:
        yield from _of_numbers(before, after)
    elif before.code_R is not None:
        unseen_R = _unseen_levels(before.levels, after)
        named = ", ".join(sorted(set(_texts(after)[unseen_R].tolist()))[:3])
        usual = max(_usual_share(before, rng), 1 / (count + 1))
        yield unseen_R, usual, f"a {name} that no row had before: {named}"
    if before.distinct() > 1 and after.distinct() == 1:
        texts = _texts(before)[~before.missing_R]
        usual = float(np.unique(texts, return_counts=True)[1].max()) / len(texts)
        yield ~after.missing_R, usual, f"the same {name}; before, it varied"


def _of_numbers(before: Column, after: Column) -> Iterator[Kind]:
    count = len(before.known_R)
    if not count:
        return
    assert after.number_R is not None
    low, high = float(before.known_R.min()), float(before.known_R.max())
    outside_R = _outside(after.number_R, low, high)
    if low > 0 and high >= SKEWED * low:
        with np.errstate(invalid="ignore", divide="ignore"):
            log_R = np.log(np.maximum(after.number_R, 0))
        outside_R |= _outside(log_R, math.log(low), math.log(high))
    if outside_R.any():
        known_R = after.number_R[outside_R]
        yield (
            outside_R,
            2 / (count + 1),  # of a further row of the same kind, for the range itself
            f"{after.name} far outside of its range {low:.4g} to {high:.4g}, such as "
            f"{known_R[np.abs(known_R - low).argmax()]:.4g}",
        )


def _outside(value_R: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.bool_]:
    """Return a mask (R,) of the values that are outside of a range by more than `BEYOND` of it."""
    far = BEYOND * (high - low)
    with np.errstate(invalid="ignore"):
        return np.asarray((value_R < low - far) | (value_R > high + far))


def _texts(column: Column) -> npt.NDArray[np.str_]:
    """Return the values of a column as texts (R,), "" where missing."""
    if column.code_R is None:
        assert column.number_R is not None
        return column.number_R.astype(str)
    return np.array([*column.levels, ""], str)[column.code_R]


def _unseen_levels(levels: tuple[str, ...], column: Column) -> npt.NDArray[np.bool_]:
    return ~np.isin(_texts(column), levels) & ~column.missing_R


def _usual_share(column: Column, rng: np.random.Generator) -> float:
    """Return the share of rows in one half whose category does not occur in the other half."""
    assert column.code_R is not None
    code_R = rng.permutation(column.code_R)
    half = len(code_R) // 2
    return float((~np.isin(code_R[:half], code_R[half:]) & (code_R[:half] >= 0)).mean())
