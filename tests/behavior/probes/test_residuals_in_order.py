"""Successive residuals are named only if they are correlated."""

from __future__ import annotations

import numpy as np
import pytest
from tests.behavior.asking import outcome, suspicions

from mothtrap.behavior.probes.residuals_in_order import ResidualsInOrder
from mothtrap.core.errors import NotApplicable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2))
NOISE = RNG.normal(size=1000)
ALIKE = np.convolve(RNG.normal(size=1003), np.ones(4), "valid") / 2


def zero(a: np.ndarray) -> np.ndarray:
    return np.zeros(len(a))


def test_the_order_of_time_counts_and_not_that_of_the_rows() -> None:
    assert len(outcome(ResidualsInOrder(), zero, X, ALIKE, time=np.arange(1000)).findings) == 1
    mixed = RNG.permutation(1000)
    assert outcome(ResidualsInOrder(), zero, X, ALIKE, time=mixed).findings == ()
    found = outcome(ResidualsInOrder(), zero, X, ALIKE[mixed], time=mixed).findings
    assert len(found) == 1


def test_noise_is_fine() -> None:
    assert outcome(ResidualsInOrder(), zero, X, NOISE, time=np.arange(1000)).findings == ()


def test_without_time_nothing_is_said() -> None:
    with pytest.raises(NotApplicable, match="time"):
        suspicions(ResidualsInOrder(), zero, X, NOISE)
