from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import noise

from mothtrap.rules._onset import rise_begins


@pytest.mark.parametrize("factor", [1.1, 2.0, 50.0])
@pytest.mark.parametrize("begin", [1, 30, 150])
def test_finds_the_first_value_of_a_geometric_rise(factor: float, begin: int) -> None:
    values = np.concatenate([np.ones(begin), factor ** np.arange(1, 31)])
    assert rise_begins(values, len(values) - 1) == begin


@pytest.mark.parametrize("seed", range(5))
def test_finds_it_under_noise(seed: int) -> None:
    values = np.concatenate([np.ones(100), 1.2 ** np.arange(1, 31)])
    noisy = values * np.exp(noise(130, scale=0.2, seed=seed))
    assert abs(rise_begins(noisy, 129) - 100) <= 5


def test_a_jump_begins_where_it_is_seen() -> None:
    assert rise_begins(np.array([1.0, 1.0, 1.0, 1.0, 100.0]), 4) == 4


def test_two_values_have_no_bend() -> None:
    assert rise_begins(np.array([1.0, 5.0]), 1) == 1


def test_looks_back_a_bounded_number_of_steps() -> None:
    assert rise_begins(np.exp(np.arange(1000) / 100), 999) >= 799


@pytest.mark.parametrize("fall", [3, 12, 40])
@pytest.mark.parametrize("factor", [1.5, 3.0, 10.0])
def test_what_falls_before_it_rises_begins_to_rise_at_its_lowest(fall: int, factor: float) -> None:
    falling = 1.36 * (0.03 / 1.36) ** (np.arange(fall) / fall)
    values = np.concatenate([falling, 0.03 * factor ** np.arange(7.0)])
    assert abs(rise_begins(values, len(values) - 1) - (fall + 1)) <= 1
