"""A predict function whose predictions are checked by assertions.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from mothtrap.behavior.answers import merged, protected, take_rows
from mothtrap.behavior.assertion import Assertion, Mask
from mothtrap.core.errors import AssertionFailedError, ConfigError

OnFail = Literal["flag", "correct", "raise", "fallback"]
MAX_ERRORS = 10
"""Errors in a row after which an assertion is switched off; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Predictions of one call that violate an assertion.

    `replaced_R` are the rows whose predictions were replaced by the correction or the fallback.
    """

    assertion: Assertion
    failing_R: Mask
    replaced_R: Mask | None = None


class ServeRecord(Protocol):
    """Record of the calls to an asserted predict function; its methods never raise."""

    def called(self, rows: int, added_s: float, broken: Sequence[Broken], X: Any, y: Any) -> None:
        """Count a call, and record its failing rows.

        Args:
            rows: Number of predictions in the call.
            added_s: Time of the checks in seconds.
            broken: Assertions that failed.
            X: Input rows of the call.
            y: Predictions before any correction.
        """

    def check_failed(self, assertion: Assertion, error: Exception, *, is_off: bool) -> None:
        """Record an exception in a check or a correction."""

    def close(self) -> None:
        """Close the record."""


class Asserted:
    """A predict function with assertions; see `mothtrap.asserted`.

    If a check, a correction, or the record raises an error, the original prediction is returned.

    Args:
        predict: Function of rows and any further arguments.
        assertions: Assertions, checked in this order.
        on_fail: What to do with failing predictions.
        fallback: Function that predicts the failing rows if `on_fail` is "fallback".
        record: record of the calls.
    """

    def __init__(
        self,
        predict: Callable[..., Any],
        assertions: Sequence[Assertion],
        on_fail: OnFail,
        fallback: Callable[[Any], Any] | None,
        record: ServeRecord,
    ) -> None:
        _check(predict, assertions, on_fail, fallback)
        functools.update_wrapper(self, predict, updated=())
        self._predict, self._assertions = predict, tuple(assertions)
        self._on_fail, self._fallback, self._record = on_fail, fallback, record
        self._errors = dict.fromkeys((each.code for each in assertions), 0)

    def __call__(self, *rows: Any, **more: Any) -> Any:
        """Predict, and check the predictions.

        Raises:
            AssertionFailedError: a prediction breaks an assertion, and `on_fail` is "raise".
            Exception: whatever the predict function raises.
        """
        given = self._predict(*rows, **more)
        began_s = time.perf_counter()
        X = rows[0] if rows else next(iter(more.values()), None)
        answer, broken = self._checked(X, given)
        with contextlib.suppress(Exception):  # the prediction is never lost
            added_s = time.perf_counter() - began_s
            self._record.called(len(given), added_s, broken, X, given)
        if broken and self._on_fail == "raise":
            raise AssertionFailedError(_in_words(broken))
        return answer

    def close(self) -> None:
        """Close the run. Without this call, the run ends with the process."""
        self._record.close()

    def _checked(self, X: Any, given: Any) -> tuple[Any, list[Broken]]:
        """Return the predictions to hand out, and the assertions that they broke."""
        answer, broken = given, []
        for assertion in self._assertions:
            if self._errors[assertion.code] >= MAX_ERRORS:
                continue
            try:
                holds_R = assertion.holds(X, protected(answer), self._predict)
            except Exception as err:  # whatever a function of the user raises
                self._note(assertion, err)
                continue
            self._errors[assertion.code] = 0
            if holds_R.all():
                continue
            failing_R = ~holds_R
            before, answer = answer, self._replaced(assertion, X, answer, failing_R)
            replaced_R = failing_R if answer is not before else None
            broken.append(Broken(assertion=assertion, failing_R=failing_R, replaced_R=replaced_R))
        return answer, broken

    def _replaced(self, assertion: Assertion, X: Any, answer: Any, failing_R: Mask) -> Any:
        """Return the predictions, with replacements for failing rows if requested."""
        try:
            if self._on_fail == "correct" and assertion.correction is not None:
                return merged(answer, assertion.correction(X, protected(answer)), failing_R)
            if self._on_fail == "fallback" and self._fallback is not None:
                return merged(answer, self._fallback(take_rows(X, failing_R)), failing_R)
        except Exception as err:  # whatever a function of the user raises
            self._note(assertion, err)
        return answer

    def _note(self, assertion: Assertion, error: Exception) -> None:
        self._errors[assertion.code] += 1
        is_off = self._errors[assertion.code] == MAX_ERRORS
        with contextlib.suppress(Exception):  # the prediction is never lost
            self._record.check_failed(assertion, error, is_off=is_off)


def _check(
    predict: Callable[..., Any],
    assertions: Sequence[Assertion],
    on_fail: str,
    fallback: Callable[[Any], Any] | None,
) -> None:
    """Raise ConfigError where the arguments of `mothtrap.asserted` do not fit together."""
    if not callable(predict):
        raise ConfigError(
            f"asserted: expected a function such as model.predict, got {type(predict).__name__}"
        )
    for each in assertions:
        if not isinstance(each, Assertion):
            raise ConfigError(
                f"asserted: {each!r} is not an assertion; decorate it with @mothtrap.assertion"
            )
    codes = [each.code for each in assertions]
    if twice := [code for code in codes if codes.count(code) > 1]:
        raise ConfigError(f"asserted: two assertions have the code {twice[0]}")
    if on_fail not in get_args(OnFail):
        raise ConfigError(
            f"asserted: on_fail is {on_fail!r}; expected one of {', '.join(get_args(OnFail))}"
        )
    if (on_fail == "fallback") != (fallback is not None):
        raise ConfigError(
            'asserted: fallback=FUNCTION and on_fail="fallback" must be used together'
        )


def _in_words(broken: Sequence[Broken]) -> str:
    parts = [
        f"{each.assertion.code} {each.assertion.name} ({int(each.failing_R.sum()):,} of "
        f"{len(each.failing_R):,} rows)"
        for each in broken
    ]
    return f"predictions break {', '.join(parts)}"
