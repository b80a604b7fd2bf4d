"""A direction that was stated is checked in every row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.not_monotone import NotMonotone
from mothtrap.core.errors import ConfigError, NotApplicable

RNG = np.random.default_rng(0)
X = pd.DataFrame({"size": RNG.uniform(0, 10, 400), "kind": RNG.choice(list("ab"), 400)})
Y = X["size"].to_numpy()


def bent(d: pd.DataFrame) -> np.ndarray:
    """Falls between 4 and 6, for kind b alone."""
    size = d["size"].to_numpy()
    return size - np.where(d.kind == "b", 2 * np.clip(size - 4, 0, 2), 0)


def test_the_rows_and_the_interval_are_named() -> None:
    (found,) = suspicions(NotMonotone(), bent, X, Y, monotone={"size": "+"})
    assert found.features == ("size",)
    assert set(found.rows) <= set(np.flatnonzero(X.kind == "b"))
    assert float(found.evidence["from"]) == pytest.approx(4, abs=0.5)  # type: ignore[arg-type]
    assert float(found.evidence["to"]) == pytest.approx(6, abs=0.5)  # type: ignore[arg-type]
    assert found.exact


@pytest.mark.parametrize(("sign", "count"), [("+", 0), ("-", 1)])
def test_the_direction_counts(sign: str, count: int) -> None:
    found = suspicions(NotMonotone(), lambda d: d["size"].to_numpy(), X, Y, monotone={"size": sign})
    assert len(found) == count


def test_without_a_stated_direction_nothing_is_said() -> None:
    with pytest.raises(NotApplicable, match="monotone="):
        suspicions(NotMonotone(), bent, X, Y)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="siz"):
        suspicions(NotMonotone(), bent, X, Y, monotone={"siz": "+"})


def test_the_constraint_is_given_as_code_that_works() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    (found,) = suspicions(NotMonotone(), bent, X, Y, monotone={"size": "+"})
    (code,) = found.code
    assert "monotonic_cst={'size': 1} in HistGradientBoosting" in code.replace("`", "")
    assert "monotone_constraints=[1, 0]" in code
    rows = X.assign(kind=(X.kind == "b").astype(int))
    model = HistGradientBoostingRegressor(monotonic_cst={"size": 1}).fit(rows, bent(X))
    assert not suspicions(NotMonotone(), model.predict, rows, bent(X), monotone={"size": "+"})
