"""Checked predictions: flagged, corrected, refused, or predicted again, and never lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import mothtrap
from mothtrap.behavior.asserted import MAX_ERRORS, Asserted, Broken
from mothtrap.behavior.assertion import Assertion
from mothtrap.core.errors import AssertionFailedError, ConfigError


@mothtrap.assertion("BEH901")
def is_positive(X: Any, predictions: Any) -> Any:
    return predictions >= 0


@is_positive.correct
def at_least_zero(X: Any, predictions: Any) -> Any:
    return predictions.clip(0)


@mothtrap.assertion("BEH902")
def raises(X: Any, predictions: Any) -> Any:
    raise KeyError("column")


class Heard:
    """A record in memory."""

    def __init__(self) -> None:
        self.broken: list[Broken] = []
        self.errors: list[tuple[str, bool]] = []
        self.rows = 0

    def close(self) -> None:
        pass

    def called(self, rows: int, added_s: float, broken: Sequence[Broken], X: Any, y: Any) -> None:
        self.rows += rows
        self.broken += broken

    def check_failed(self, assertion: Assertion, error: Exception, *, is_off: bool) -> None:
        self.errors.append((assertion.code, is_off))


def minus_one(X: Any) -> Any:
    return X - 1


X = np.array([0.0, 1.0, 2.0])


def test_a_flagged_prediction_stays_as_it_is() -> None:
    heard = Heard()
    predict = Asserted(minus_one, [is_positive], "flag", None, heard)
    assert predict(X).tolist() == [-1, 0, 1]
    assert [each.failing_R.tolist() for each in heard.broken] == [[True, False, False]]
    assert heard.broken[0].replaced_R is None
    assert heard.rows == 3


@pytest.mark.parametrize("form", [np.asarray, pd.Series, torch.tensor, list])
def test_a_correction_replaces_failing_rows_only(form: Any) -> None:
    def predict(rows: Any) -> Any:
        return form(minus_one(rows).tolist())

    @mothtrap.assertion("BEH903")
    def holds(X: Any, predictions: Any) -> Any:
        return np.array([float(each) >= 0 for each in predictions])

    holds.correct(lambda X, predictions: form([9.0, 9.0, 9.0]))
    found = Asserted(predict, [holds], "correct", None, Heard())(X)
    assert type(found) is type(form([1.0]))
    assert [float(each) for each in found] == [9, 0, 1]


def test_a_correction_is_not_cut_to_the_type_of_the_prediction() -> None:
    for given, right in ((np.array(["no", "b"]), "maybe"), (np.array([1, 2]), 0.5)):
        made = mothtrap.assertion("BEH903")(lambda X, p: np.array([False, True]))
        made.correct(lambda X, p, right=right: np.array([right] * 2))
        predict = Asserted(lambda _, given=given: given, [made], "correct", None, Heard())
        assert predict(X).tolist() == [right, given[1]]


def test_the_fallback_is_asked_about_failing_rows_only() -> None:
    asked = []

    def fallback(rows: Any) -> Any:
        asked.append(rows.a.tolist())
        return np.full(len(rows), 7.0)

    rows = pd.DataFrame({"a": X}, index=[5, 6, 7])
    predict = Asserted(
        lambda d: minus_one(d.a.to_numpy()), [is_positive], "fallback", fallback, Heard()
    )
    assert predict(rows).tolist() == [7, 0, 1]
    assert asked == [[0.0]]


def test_an_error_is_raised_where_that_is_asked_for() -> None:
    predict = Asserted(minus_one, [is_positive], "raise", None, Heard())
    with pytest.raises(AssertionFailedError, match=r"BEH901 is_positive \(1 of 3 rows\)"):
        predict(X)
    assert predict(X + 1).tolist() == [0, 1, 2]


def test_a_check_that_raises_leaves_the_prediction_and_is_switched_off() -> None:
    heard = Heard()
    predict = Asserted(minus_one, [raises, is_positive], "correct", None, heard)
    for _ in range(MAX_ERRORS + 5):
        assert predict(X).tolist() == [0, 0, 1]
    assert heard.errors == [("BEH902", False)] * (MAX_ERRORS - 1) + [("BEH902", True)]


def test_a_correction_that_raises_or_has_the_wrong_size_leaves_the_prediction() -> None:
    for wrong in (lambda X, p: 1 / 0, lambda X, p: p[:2], lambda X, p: None):
        made = mothtrap.assertion("BEH904")(lambda X, p: p >= 0)
        made.correct(wrong)
        heard = Heard()
        assert Asserted(minus_one, [made], "correct", None, heard)(X).tolist() == [-1, 0, 1]
        assert heard.errors == [("BEH904", False)]


def test_a_record_that_raises_leaves_the_correction() -> None:
    class Full(Heard):
        def called(self, *_: Any) -> None:
            raise OSError("no space left on device")

        def check_failed(self, *_: Any, **more: Any) -> None:
            raise OSError("no space left on device")

    checks = [raises, is_positive]
    assert Asserted(minus_one, checks, "correct", None, Full())(X).tolist() == [0, 0, 1]


def test_a_check_cannot_change_the_prediction() -> None:
    @mothtrap.assertion("BEH905")
    def writes(X: Any, predictions: Any) -> Any:
        predictions[:] = 0
        return predictions >= 0

    heard = Heard()
    assert Asserted(minus_one, [writes], "flag", None, heard)(X).tolist() == [-1, 0, 1]
    assert heard.errors == [("BEH905", False)]


def test_what_the_model_raises_reaches_the_caller() -> None:
    def refuse(X: Any) -> Any:
        raise ValueError("unknown kind")

    with pytest.raises(ValueError, match="unknown kind"):
        Asserted(refuse, [is_positive], "flag", None, Heard())(X)


def test_further_arguments_and_the_name_stay_those_of_the_function() -> None:
    def predict(X: Any, *, times: float = 1.0) -> Any:
        """Predict."""
        return times * X

    made = Asserted(predict, [is_positive], "flag", None, Heard())
    assert made(X, times=2.0).tolist() == [0, 2, 4]
    assert made(X=X, times=3.0).tolist() == [0, 3, 6]
    assert made.__doc__ == "Predict."


def test_arguments_that_do_not_fit_are_refused() -> None:
    for given, words in (
        ((minus_one, [is_positive], "fix", None), "on_fail is 'fix'"),
        ((minus_one, [is_positive], "fallback", None), "must be used together"),
        ((minus_one, [is_positive, is_positive], "flag", None), "two assertions"),
        ((minus_one, [minus_one], "flag", None), "@mothtrap.assertion"),
        (("model", [is_positive], "flag", None), "model.predict"),
    ):
        with pytest.raises(ConfigError, match=words):
            Asserted(*given, Heard())  # type: ignore[arg-type]
