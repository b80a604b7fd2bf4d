"""Numbers of many steps survive as text, and damage produces NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core.packed_floats import FEWEST, packed, unpacked

ANY = st.floats(allow_nan=True, allow_infinity=True)
SHORT = st.floats(width=32)


@given(
    st.one_of(
        st.lists(ANY, max_size=40),
        st.lists(ANY, min_size=FEWEST, max_size=2 * FEWEST),
        st.lists(SHORT, min_size=FEWEST, max_size=2 * FEWEST),
    )
)
def test_numbers_come_back_exactly(values: list[float]) -> None:
    found = unpacked(packed(values), len(values))
    assert np.array_equal(found, np.array(values, float), equal_nan=True)


def test_losses_of_float32_take_four_bytes_and_a_constant_rate_almost_nothing() -> None:
    losses = np.random.default_rng(0).random(300).astype(np.float32)
    assert len(packed(losses.tolist())) <= 1 + 300 * 4 * 4 / 3
    assert len(packed([0.001] * 300)) < 20


def test_many_losses_take_less_than_four_bytes_and_a_schedule_less_than_three() -> None:
    generator = np.random.default_rng(0)
    losses = (1 + 0.2 * generator.standard_normal(498)).astype(np.float32)
    cosine = [0.05 * (1 + math.cos(math.pi * step / 40_000)) / 2 for step in range(20_000, 20_498)]
    linear = [0.05 * (1 - step / 40_000) for step in range(20_000, 20_498)]
    for values, most in ((losses.tolist(), 4.4), (cosine, 3.0), (linear, 1.0)):
        text = packed(values)
        assert len(text) <= most * len(values)
        assert unpacked(text, len(values)).tolist() == values


def test_damage_of_compressed_numbers_leaves_nan() -> None:
    values = np.random.default_rng(0).random(200).astype(np.float32).tolist()
    text = packed(values)
    assert text[0] == "F"
    for damaged in (text[:-8], text[:9] + "AAAA" + text[13:], "F", "FAAAA"):
        assert all(math.isnan(value) for value in unpacked(damaged, 200)), damaged
    for count in (199, 201, -1):
        assert all(math.isnan(value) for value in unpacked(text, count)), count


@pytest.mark.parametrize("text", ["", "f", "fAAA", "f????", "x" + packed([1.0, 2.0])[1:], "dAAAA"])
def test_damage_leaves_nan(text: str) -> None:
    assert all(math.isnan(value) for value in unpacked(text, 3))
