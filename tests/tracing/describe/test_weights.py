"""Weights before the first step, and units that are identical."""

from __future__ import annotations

import numpy as np
import pytest

from mothtrap.tracing.describe import weights

RNG = np.random.default_rng(3)


def test_sizes_of_first_weights() -> None:
    values, gradient = RNG.normal(0.5, 2.0, (40, 30)), RNG.normal(size=(40, 30))
    fact = weights.initial(
        weights.Weight(0, "a.weight", "a", "Linear", 40), weights.sizes_of(values, gradient), 30
    )
    assert fact.rms == pytest.approx(np.sqrt((values**2).mean()))
    assert fact.std == pytest.approx(values.std())
    low, high = np.quantile(gradient, [0.05, 0.95])
    assert fact.gradient_range == pytest.approx(high - low, rel=0.02)


def test_a_large_weight_is_sampled() -> None:
    values = RNG.normal(0.0, 2.0, (700, 300)).astype(np.float32)
    fact = weights.sizes_of(values, None)
    assert fact.std == pytest.approx(2.0, rel=0.05)
    assert fact.gradient_range is None


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_equal_units_up_to_rounding(axis: int) -> None:
    one = RNG.normal(size=6)
    units = np.moveaxis(np.tile(one, (4, 1)), 0, axis)
    assert weights.are_same(units, axis, exact=True)
    rounded = units * (1 + 1e-7 * RNG.normal(size=units.shape))
    assert weights.are_same(rounded, axis)
    assert not weights.are_same(rounded, axis, exact=True)
    assert not weights.are_same(units + 0.01 * RNG.normal(size=units.shape), axis)


def test_one_unit_has_no_other() -> None:
    assert not weights.are_same(np.ones((1, 5)), 0)


def test_zero_gradients_are_the_same() -> None:
    assert weights.are_same(np.zeros((3, 5)), 0)
