"""Assertions that many models need.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.answers import take_rows
from mothtrap.behavior.assertion import Assertion, as_array, assertion
from mothtrap.behavior.table import Table
from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Severity

Level = Severity | Literal["error", "warning", "info"]
ASKED_ROWS = 32
"""Rows of a call for which the model is asked again; chosen by hand."""
MAX_KEYS = 100_000
"""Keys whose last prediction `stable_over_time` remembers, about 10 MB; chosen by hand."""


def in_range(
    low: float = -np.inf, high: float = np.inf, *, code: str = "BEH911", severity: Level = "error"
) -> Assertion:
    """Return an assertion that predictions are finite numbers from `low` to `high`.

    Its correction moves a number outside of the range to the nearest bound. NaN stays.
    """

    @assertion(code, severity=severity)
    def in_range(X: Any, predictions: Any) -> Any:  # noqa: ARG001  # the form of a check
        """A prediction is outside of its possible range."""
        values = _flat(predictions)
        inside = np.isfinite(values) & (values >= low) & (values <= high)
        return inside.all(axis=1)

    @in_range.correct
    def _(X: Any, predictions: Any) -> Any:  # noqa: ARG001
        return np.clip(as_array(predictions), low, high)

    return in_range


def sums_to_one(
    tolerance: float = 1e-3, *, code: str = "BEH912", severity: Level = "error"
) -> Assertion:
    """Return an assertion that the probabilities of a row are from 0 to 1, and that their sum is 1.

    Its correction divides nonnegative probabilities by their sum.
    """

    @assertion(code, severity=severity)
    def sums_to_one(X: Any, predictions: Any) -> Any:  # noqa: ARG001
        """The probabilities of a row do not sum to 1."""
        values = _flat(predictions)
        possible = ((values >= -tolerance) & (values <= 1 + tolerance)).all(axis=1)
        if values.shape[1] == 1:
            return possible
        return possible & (np.abs(values.sum(axis=1) - 1) <= tolerance)

    @sums_to_one.correct
    def _(X: Any, predictions: Any) -> Any:  # noqa: ARG001
        values = as_array(predictions).clip(min=0)
        total = values.sum(axis=-1, keepdims=True)
        return np.where(total > 0, values / np.where(total > 0, total, 1), as_array(predictions))

    return sums_to_one


def monotone(
    column: str,
    direction: Literal["+", "-"],
    *,
    step: float = 0.1,
    tolerance: float = 1e-6,
    code: str = "BEH913",
    severity: Level = "error",
) -> Assertion:
    """Return an assertion that the output does not fall (+) or rise (-) as a column grows.

    The model predicts the first 32 rows of a call again, with a larger value in the column.

    Args:
        column: column of numbers.
        direction: "+" or "-".
        step: added to the column, as a share of its standard deviation within the call; for a
            single row, as a share of the value.
        tolerance: change in the wrong direction that is allowed.
        code: code of the finding.
        severity: severity of the finding.

    Raises:
        ConfigError: `direction` is neither "+" nor "-".
    """
    if direction not in ("+", "-"):
        raise ConfigError(f"monotone: expected + or -, found {direction!r}")
    sign = 1 if direction == "+" else -1

    @assertion(code, severity=severity)
    def monotone(X: Any, predictions: Any, *, predict: Callable[[Any], Any]) -> Any:
        """The output contradicts the stated direction of a column."""
        table = Table(X)
        values_R = table.column(column).number_R
        if values_R is None:
            raise ConfigError(f"monotone: {column!r} is not numeric")
        size = float(np.nanstd(values_R)) or float(np.abs(values_R).max()) or 1.0

        def larger(some: Any) -> Any:
            own = Table(some)
            number_R = own.column(column).number_R
            assert number_R is not None
            return own.replaced({column: number_R + step * size}).data

        change_R = _change(X, predictions, predict, larger)
        holds_R: Any = np.isnan(change_R) | (sign * change_R >= -tolerance)
        return holds_R

    return monotone


def consistent_under(
    transform: Callable[[Any], Any],
    *,
    tolerance: float = 1e-3,
    code: str = "BEH914",
    severity: Level = "error",
) -> Assertion:
    """Return an assertion that a transformation of the rows does not change the predictions.

    The model also predicts the transformed version of the first 32 rows of a call.

    Args:
        transform: takes rows and returns the same number of equivalent rows.
        tolerance: largest change of a number; labels must stay equal.
        code: code of the finding.
        severity: severity of the finding.
    """

    @assertion(code, severity=severity)
    def consistent_under(X: Any, predictions: Any, *, predict: Callable[[Any], Any]) -> Any:
        """A change of the row that should not matter changes the prediction."""
        change_R = _change(X, predictions, predict, transform, absolute=True)
        return np.isnan(change_R) | (change_R <= tolerance)

    return consistent_under


def agrees_with(
    rule: Callable[[Any], Any],
    *,
    tolerance: float = 0.0,
    code: str = "BEH915",
    severity: Level = "error",
) -> Assertion:
    """Return an assertion that predictions agree with a rule wherever the rule has an answer.

    Its correction is the answer of the rule.

    Args:
        rule: takes rows and returns one answer per row, None or NaN if it has none.
        tolerance: largest difference of numbers; labels must be equal.
        code: code of the finding.
        severity: severity of the finding.
    """

    @assertion(code, severity=severity)
    def agrees_with(X: Any, predictions: Any) -> Any:
        """A prediction contradicts a rule that must hold."""
        said_R, own_R = as_array(rule(X)), as_array(predictions)
        open_R = np.array([each is None or each != each for each in said_R.tolist()], bool)
        if own_R.dtype.kind not in "iuf":
            return open_R | (said_R.astype(str) == own_R.astype(str))
        far_R = np.abs(np.where(open_R, 0, said_R).astype(float) - own_R)
        return open_R | (far_R <= tolerance)

    @agrees_with.correct
    def _(X: Any, predictions: Any) -> Any:  # noqa: ARG001
        return rule(X)

    return agrees_with


def stable_over_time(
    key: str, *, changes: float = 0.0, code: str = "BEH916", severity: Level = "warning"
) -> Assertion:
    """Return an assertion that the prediction for an object stays the same in later calls.

    The last prediction of at most 100,000 keys is stored. The first prediction of a key passes.

    Args:
        key: column that identifies the object, such as a customer number.
        changes: largest change of a number; labels must be equal.
        code: code of the finding.
        severity: severity of the finding.
    """
    last: OrderedDict[Any, Any] = OrderedDict()
    lock = threading.Lock()

    @assertion(code, severity=severity)
    def stable_over_time(X: Any, predictions: Any) -> Any:
        """The prediction for the same object changes from call to call."""
        keys = np.asarray(Table(X).column(key).given_R).tolist()
        values = _flat(predictions) if _is_number(predictions) else as_array(predictions)[:, None]
        holds_R = np.ones(len(keys), bool)
        with lock:
            for row, name in enumerate(keys):
                before = last.pop(name, None)
                if before is not None:
                    holds_R[row] = _is_near(before, values[row], changes)
                last[name] = values[row]
                if len(last) > MAX_KEYS:
                    last.popitem(last=False)
        return holds_R

    return stable_over_time


def _flat(predictions: Any) -> npt.NDArray[np.float64]:
    """Return predictions as numbers (R, values)."""
    values = as_array(predictions).astype(np.float64)
    return values.reshape(len(values), -1)


def _is_number(predictions: Any) -> bool:
    return as_array(predictions).dtype.kind in "biuf"


def _is_near(before: Any, after: Any, limit: float) -> bool:
    if before.dtype.kind in "biuf":
        return bool((np.abs(before - after) <= limit).all())
    return bool((before == after).all())


def _change(
    X: Any,
    predictions: Any,
    predict: Callable[[Any], Any],
    transform: Callable[[Any], Any],
    *,
    absolute: bool = False,
) -> npt.NDArray[np.float64]:
    """Return the change of the output (R,) when rows are changed; NaN for rows not asked.

    With several outputs, return the change of the last column, or with `absolute` the largest
    change. A changed label counts as infinite.
    """
    found_R = np.full(len(predictions), np.nan)
    some_R = np.arange(len(found_R)) < ASKED_ROWS
    before = as_array(take_rows(predictions, some_R))
    after = as_array(predict(transform(take_rows(X, some_R))))
    if before.dtype.kind not in "iuf":
        found_R[some_R] = np.where(before == after, 0.0, np.inf)
        return found_R
    change = (after.astype(float) - before).reshape(int(some_R.sum()), -1)
    found_R[some_R] = np.abs(change).max(axis=1) if absolute else change[:, -1]
    return found_R
