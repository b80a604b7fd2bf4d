"""A leak is named; a strong feature among others is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.one_feature_decides import OneFeatureDecides
from mothtrap.core.findings import Severity

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(1500, 6)), columns=list("abcdef"))
Y = (X.a + X.b + X.c + RNG.normal(0, 0.3, 1500) > 0).astype(int).to_numpy()


def test_a_leak_is_named() -> None:
    leaky = X.assign(paid=Y + RNG.normal(0, 0.1, 1500))
    (found,) = suspicions(
        OneFeatureDecides(), lambda d: 1 / (1 + np.exp(-10 * (d.paid - 0.5) - 0.1 * d.a)), leaky, Y
    )
    assert found.features == ("paid",)
    assert found.severity is None
    assert found.p is not None
    assert found.p < 1e-10


def test_several_features_that_decide_together_are_fine() -> None:
    assert (
        suspicions(OneFeatureDecides(), lambda d: 1 / (1 + np.exp(-4 * (d.a + d.b + d.c))), X, Y)
        == []
    )


def test_the_only_useful_column_of_a_weak_model_is_a_note() -> None:
    """A leak would leave few errors."""
    rows = pd.DataFrame(RNG.normal(size=(3000, 6)), columns=list("abcdef"))
    rows["a"] = RNG.integers(0, 2, 3000)
    y = (RNG.random(3000) < np.where(rows.a == 1, 0.7, 0.3)).astype(int)

    def model(d: pd.DataFrame) -> np.ndarray:
        return 1 / (1 + np.exp(0.85 - 1.7 * d.a - 0.001 * d.b))

    (found,) = suspicions(OneFeatureDecides(), model, rows, y)
    assert found.severity is Severity.INFO
