"""Magnitude and variation of outputs, computed from a sample of their values."""

from __future__ import annotations

import pytest
import torch

from mothtrap.adapters.torch.layers.output_spread import rows_differ, sizes, spread
from mothtrap.adapters.torch.layers.weighted import MAX_VALUES, spaced


@pytest.mark.parametrize("shape", [(7,), (MAX_VALUES - 1,), (MAX_VALUES,), (64, 9216), (256, 118)])
def test_torch_reduces_a_sample_in_one_thread(shape: tuple[int, ...]) -> None:
    assert 0 < spaced(torch.zeros(shape)).numel() < 32_768


def test_rows_that_differ_in_a_single_value_differ() -> None:
    rows = torch.ones(64, 9216)
    assert rows_differ(rows) is False
    rows[5, 1] = 2.0  # not in the sample
    assert spaced(rows).eq(1).all()
    assert rows_differ(rows) is True


def test_a_sample_has_the_moments_of_all_values() -> None:
    values = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0)) * 3 + 1
    square, variance = sizes(values).tolist()
    assert square == pytest.approx(10, rel=0.05)
    assert variance == pytest.approx(9, rel=0.05)
    found = spread(values)
    assert found is not None
    assert found[:2].tolist() == pytest.approx([3, 10**0.5], rel=0.05)
