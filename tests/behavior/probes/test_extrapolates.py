"""Certainty far from all data is named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.extrapolates import Extrapolates

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 3))
Y = (X[:, 0] + RNG.normal(0, 1, 800) > 0).astype(int)


def test_confidence_that_rises_with_the_distance_is_named() -> None:
    (found,) = suspicions(Extrapolates(), lambda a: 1 / (1 + np.exp(-1.7 * a[:, 0])), X, Y)
    assert float(found.evidence["value"]) > 0.99  # type: ignore[arg-type]


@pytest.mark.parametrize("border", [2.0, 3.5])
def test_a_model_that_stays_as_it_is_at_the_border_is_fine(border: float) -> None:
    """At 3.5 it is surer than on the data, as trees are, but no surer with the distance."""

    def held(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-1.7 * a[:, 0].clip(-border, border)))

    assert suspicions(Extrapolates(), held, X, Y) == []


def test_numbers_far_outside_of_the_targets_are_named() -> None:
    y = X[:, 0]
    (found,) = suspicions(Extrapolates(), lambda a: a[:, 0] ** 3, X, y)
    assert found.evidence["value"] == 1
    assert suspicions(Extrapolates(), lambda a: a[:, 0].clip(-3, 3), X, y) == []
