"""Numbers of many steps survive as text, and damage leaves NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core.packed_floats import packed, unpacked


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40))
def test_numbers_come_back_exactly(values: list[float]) -> None:
    found = unpacked(packed(values), len(values))
    assert np.array_equal(found, np.array(values, float), equal_nan=True)


def test_losses_of_float32_take_four_bytes_and_a_constant_rate_almost_nothing() -> None:
    losses = np.random.default_rng(0).random(300).astype(np.float32)
    assert len(packed(losses.tolist())) <= 1 + 300 * 4 * 4 / 3
    assert len(packed([0.001] * 300)) < 20


@pytest.mark.parametrize("text", ["", "f", "fAAA", "f????", "x" + packed([1.0, 2.0])[1:], "dAAAA"])
def test_damage_leaves_nan(text: str) -> None:
    assert all(math.isnan(value) for value in unpacked(text, 3))
