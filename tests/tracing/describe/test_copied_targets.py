"""Windows of a series whose targets lie inside, or after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mothtrap.tracing.describe.copied_targets import copied_places

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)
SERIES = RNG.normal(size=(300, 3)).cumsum(axis=0).astype(np.float32)


def windows(begin: int, stop: int, rows: int = 40) -> Array:
    return np.stack([SERIES[row + begin : row + stop] for row in range(rows)])


def test_a_target_inside_the_window_is_found() -> None:
    found = copied_places([windows(0, 24)], windows(12, 18))
    assert found is not None
    places, numbers = found
    assert (places[0], places[-1], numbers) == (12 * 3, 18 * 3 - 1, 72)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        pytest.param(windows(0, 24), windows(24, 30), id="the next values"),
        pytest.param(windows(0, 24), windows(20, 26), id="some of them are new"),
        pytest.param(windows(0, 24), windows(12, 18) + 1e-3, id="other values"),
        pytest.param(np.ones((40, 9), np.float32), np.ones((40, 2), np.float32), id="constant"),
    ],
)
def test_other_targets_are_fine(given: Array, target: Array) -> None:
    assert copied_places([given], target) == ((), given[0].size)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        pytest.param(windows(0, 24), windows(0, 24), id="an autoencoder"),
        pytest.param(windows(0, 24), windows(1, 24), id="the next value at each position"),
        pytest.param(windows(0, 24, 8), windows(12, 18, 8), id="few rows"),
        pytest.param(windows(0, 24), windows(12, 18).astype(np.int64), id="whole numbers"),
        pytest.param(windows(0, 24), windows(12, 13)[:, 0, 0], id="one number each"),
    ],
)
def test_other_inputs_are_not_compared(given: Array, target: Array) -> None:
    assert copied_places([given], target) is None
