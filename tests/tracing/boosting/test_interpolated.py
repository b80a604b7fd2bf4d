"""Rows made by interpolation are recognized; rows that were split first are not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from mothtrap.tracing.boosting.interpolated import between

Rows = npt.NDArray[np.float32]


def oversampled(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return the rows, and as many between each and its nearest neighbor, in random order."""
    distance_RR = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    nearest_R = distance_RR.argsort(axis=1)[:, 1]
    made = rows + rng.random((len(rows), 1)) * (rows[nearest_R] - rows)
    return rng.permutation(np.concatenate([rows, made])).astype(np.float32)


def test_rows_made_before_the_split() -> None:
    rng = np.random.default_rng(0)
    rows = oversampled(rng.normal(size=(300, 6)).astype(np.float32), rng)
    inspected, found = between(rows[:450], rows[450:])
    assert inspected == 96
    assert found > 0.2 * inspected


def test_rows_made_from_training_rows_only() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 6)).astype(np.float32)
    assert between(oversampled(rows[:300], rng), rows[300:]) == (96, 0)


RNG = np.random.default_rng(1)
TIMES = np.linspace(0, 50, 900)[:, None]


@pytest.mark.parametrize(
    ("rows", "inspected"),
    [
        pytest.param(RNG.normal(size=(900, 8)), 96, id="random"),
        pytest.param(np.repeat(RNG.normal(size=(600, 8)), 3, axis=0)[::2], 96, id="copies"),
        pytest.param(RNG.normal(size=(900, 2)) @ RNG.normal(size=(2, 8)), 96, id="a plane"),
        pytest.param(TIMES * np.arange(1, 7), 96, id="a line"),
        pytest.param(np.sin(TIMES * np.arange(1, 7) / 3), 96, id="a smooth curve"),
        pytest.param(RNG.normal(size=(900, 8)).round(1), 0, id="a grid"),
        pytest.param(RNG.normal(size=(900, 3)), 0, id="few columns"),
        pytest.param(np.full((900, 5), np.nan), 0, id="missing"),
    ],
)
def test_ordinary_tables(rows: npt.NDArray[np.float64], inspected: int) -> None:
    rows = np.random.default_rng(2).permutation(rows).astype(np.float32)
    looked, found = between(rows[:700], rows[700:])
    assert looked == inspected
    assert found <= 2
