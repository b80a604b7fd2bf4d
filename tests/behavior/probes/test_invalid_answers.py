"""NaN for valid values and columns read by position are named; refusals are fine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.invalid_answers import InvalidAnswers
from mothtrap.core.findings import Severity

RNG = np.random.default_rng(0)
X = pd.DataFrame({"kind": RNG.choice(list("abc"), 300), "x": RNG.normal(size=300)})
WORTH = {"a": 1.0, "b": 2.0, "c": 3.0}
Y = X.kind.map(WORTH).to_numpy() + X.x.to_numpy()


def careless(d: pd.DataFrame) -> np.ndarray:
    return d.kind.map(WORTH).to_numpy().astype(float) + np.nan_to_num(d.x.to_numpy())


def careful(d: pd.DataFrame) -> np.ndarray:
    if not d.kind.isin(WORTH).all():
        raise ValueError("unknown kind")
    return careless(d)


def test_nan_for_an_unseen_category_is_a_warning() -> None:
    found = [one for one in suspicions(InvalidAnswers(), careless, X, Y) if one.severity is None]
    assert [one.features for one in found] == [("kind",)]


def test_a_refusal_is_fine() -> None:
    assert suspicions(InvalidAnswers(), careful, X, Y) == []


def test_nan_for_a_missing_number_is_a_note() -> None:
    def plain(d: pd.DataFrame) -> np.ndarray:
        return careful(d) + 0 * d.x.to_numpy()

    found = suspicions(InvalidAnswers(), plain, X, Y)
    assert found
    assert {one.severity for one in found} == {Severity.INFO}


def test_nan_for_a_number_below_all_others_is_a_note() -> None:
    doses = pd.DataFrame({"dose": RNG.gamma(2, 3, 300), "b": RNG.normal(size=300)})

    def logs(d: pd.DataFrame) -> np.ndarray:
        if not np.isfinite(d.to_numpy()).all():
            raise ValueError("missing value")
        with np.errstate(invalid="ignore"):
            return np.log1p(d.dose.to_numpy()) + d.b.to_numpy()

    (found,) = suspicions(InvalidAnswers(), logs, doses, logs(doses))
    assert found.features == ("dose",)
    assert found.severity is Severity.INFO
    assert "far outside of its range" in found.message


def test_columns_taken_by_place_are_named() -> None:
    numbers = pd.DataFrame(RNG.normal(size=(300, 2)), columns=["a", "b"])
    y = numbers.a.to_numpy()
    (found,) = suspicions(InvalidAnswers(), lambda d: np.nan_to_num(d.to_numpy()[:, 0]), numbers, y)
    assert "a different order" in found.message
    assert found.severity is Severity.INFO
    assert suspicions(InvalidAnswers(), lambda d: np.nan_to_num(d.a.to_numpy()), numbers, y) == []


def test_a_model_that_refuses_single_rows_is_named() -> None:
    def many(d: pd.DataFrame) -> np.ndarray:
        if len(d) == 1:
            raise ValueError("expected more than 1 row")
        return careful(d)

    (found,) = suspicions(InvalidAnswers(), many, X, Y)
    assert "expected more than 1 row" in found.message


@pytest.mark.parametrize("count", [1, 0])
def test_nan_for_unusual_combinations_is_named(count: int) -> None:
    numbers = RNG.normal(size=(500, 2))
    numbers[:, 1] = numbers[:, 0]

    def fragile(a: np.ndarray) -> np.ndarray:
        gap = np.abs(a[:, 0] - a[:, 1])
        return np.nan_to_num(np.where((gap > 3) & (count == 1), np.inf, a[:, 0]), posinf=np.inf)

    assert len(suspicions(InvalidAnswers(), fragile, numbers, numbers[:, 0])) == count
