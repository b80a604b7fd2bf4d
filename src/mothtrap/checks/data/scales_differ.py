"""PRE310: inputs have different scales in training and evaluation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, DataSet, Rows, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

EXTREME = 5e-4
"""Share of the values at each end that are left out to detect extreme values; chosen by hand."""


@frozen
class ScalesDiffer(Check):
    """Inputs have different scales in training and evaluation.

    What it detects:
        Floating-point inputs whose mean or standard deviation differs between the datasets, overall
        or in many columns of a table.

    Why it matters:
        The model is evaluated on inputs unlike any that it was trained on. Usually one dataset is
        normalized and the other is not, or each is normalized with its own statistics.

    Fires:
        Error when the standard deviation of all inputs together is `error_ratio` times larger or
        smaller, or their mean is `error_shift` standard deviations away. Warning above `ratio` or
        `shift`, or when `columns` of the columns of a table differ by as much. Also a warning
        instead of an error when the evaluation loader shuffles, because it may be for training.

    Stays quiet:
        Integers; masks of 0 and 1; inputs that are constant in training; datasets with fewer than
        `least_rows` rows; differences that come from a few extreme values, which PRE309 names.

    What to do:
        - Compute mean and standard deviation on the training data, and use them for both.
        - Check units and types: images of 0 to 255 in one dataset, of 0 to 1 in the other.

    Example:
        x_train = (x_train - mean) / std
        model(x_test)   # not normalized

    References:
        Breck et al. 2019, Data validation for machine learning,
        https://mlsys.org/Conferences/2019/doc/2019/167.pdf
    """

    code = "PRE310"
    title = "inputs have different scales in training and evaluation"
    uses = ("datasets",)
    passed = "inputs have the same scale in training and evaluation"
    costs = 3
    explains = ("train_eval_shift", "overfit")
    error_ratio: float = threshold(5.0, unit="times the deviation", source="chosen by hand")
    error_shift: float = threshold(5.0, unit="deviations in training", source="as in DAT509")
    ratio: float = threshold(2.5, unit="times the deviation", source="as in DAT509")
    shift: float = threshold(1.5, unit="deviations in training", source="as in DAT509")
    columns: float = threshold(1 / 3, unit="of the columns", source="chosen by hand")
    least_rows: int = threshold(30, unit="rows", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the training inputs with the inputs of each evaluation."""
        others = tables.evaluation_sets(subject)
        ours = tables.read(tables.training_set(subject), subject)
        decided = False
        for other in others:
            theirs = tables.read(other, subject)
            if min(len(ours.indices), len(theirs.indices)) < self.least_rows:
                continue
            for place, pair in _pairs(ours, theirs):
                decided = True
                yield from self._compared(place, pair, other, subject)
        if not decided and _has_numbers(ours):
            raise NotEnoughData(f"a dataset has fewer than {self.least_rows} rows")
        if not decided:
            raise NotApplicable("the inputs are not floating-point numbers")

    def _compared(
        self, place: int, pair: tuple[Array, Array], other: DataSet, subject: Subject
    ) -> Iterable[Found]:
        (mean, deviation), (their_mean, their_deviation) = map(_scale, pair)
        name = f" of input {place}" if place else ""
        for role, values in (
            ("training", (mean, deviation)),
            ("evaluation", (their_mean, their_deviation)),
        ):
            for what, value in zip(("mean", "deviation"), values, strict=True):
                subject.figures[f"{role} {what}{name}"] = value
        severity = self._severity(mean, deviation, their_mean, their_deviation)
        if severity and self._comes_from_outliers(pair):
            return
        differ = self._columns(pair)
        if not severity and len(differ) <= self.columns * pair[0][0].size:
            return
        where = "" if severity else f"; columns {tables.named(differ)} differ"
        yield Found(
            step=0,
            severity="error" if severity == "error" and not other.shuffled else "warning",
            message=f"evaluation inputs of {other.name} have mean {their_mean:.3g} and standard "
            f"deviation {their_deviation:.3g}, training inputs {mean:.3g} and "
            f"{deviation:.3g}{where}",
            location=other.location,
            evidence={
                "mean": mean,
                "deviation": deviation,
                "evaluation_mean": their_mean,
                "evaluation_deviation": their_deviation,
            },
        )

    def _comes_from_outliers(self, pair: tuple[Array, Array]) -> bool:
        """Return whether the scales are alike without the most extreme values of each dataset."""
        scales = [_scale(_without_extremes(one)) for one in pair]
        spread = all(deviation > 0 for _, deviation in scales)
        return spread and not self._severity(*scales[0], *scales[1])

    def _severity(self, mean: float, deviation: float, theirs: float, spread: float) -> str:
        """Return `error`, `warning`, or an empty string for equal scales."""
        if deviation <= 0 or spread <= 0:
            return ""
        ratio = max(spread / deviation, deviation / spread)
        shift = abs(theirs - mean) / deviation
        if ratio >= self.error_ratio or shift >= self.error_shift:
            return "error"
        return "warning" if ratio >= self.ratio or shift >= self.shift else ""

    def _columns(self, pair: tuple[Array, Array]) -> list[int]:
        """Return the columns of a table whose scale differs."""
        if pair[0].ndim != 2 or pair[0].shape[1] > tables.MAX_COLUMNS:
            return []
        plain = [np.where(np.isfinite(one), one, 0.0) for one in pair]
        scales = [(one.mean(0), one.std(0)) for one in plain]
        (ours, spread), (theirs, other) = scales
        columns = zip(ours, spread, theirs, other, strict=True)
        return [n for n, scale in enumerate(columns) if self._severity(*scale)]


def _has_numbers(rows: Rows) -> bool:
    return any(array.dtype.kind == "f" and not _is_mask(array) for array in rows.inputs)


def _pairs(ours: Rows, theirs: Rows) -> Iterable[tuple[int, tuple[Array, Array]]]:
    """Yield the position and the values of each floating-point input of both datasets."""
    for place, pair in enumerate(zip(ours.inputs, theirs.inputs, strict=False)):
        if all(one.dtype.kind == "f" for one in pair) and not _is_mask(pair[0]):
            yield place, pair


def _is_mask(array: Array) -> bool:
    return bool(np.isin(array, (0, 1)).all())


def _without_extremes(array: Array) -> Array:
    """Return the finite values between two extreme quantiles."""
    finite = array[np.isfinite(array)]
    if not finite.size:
        return finite
    low, high = np.quantile(finite, (EXTREME, 1 - EXTREME))
    within: Array = finite[(finite >= low) & (finite <= high)]
    return within


def _scale(array: Array) -> tuple[float, float]:
    finite = array[np.isfinite(array)].astype(float)
    return (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)
