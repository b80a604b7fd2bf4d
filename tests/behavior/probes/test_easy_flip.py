"""A model that a hair's breadth flips is named."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.easy_flip import EasyFlip

X = np.random.default_rng(0).integers(0, 400, size=(400, 2)).astype(float)
Y = (X[:, 0] > 200).astype(int)


def test_a_class_that_depends_on_the_second_digit_flips_easily() -> None:
    """The smallest change is far below the distance of the 24 values that are tried first."""
    rows = np.random.default_rng(1).uniform(0, 10, (1000, 3))

    def digit(a: np.ndarray) -> np.ndarray:
        return (np.floor(25 * a[:, 0]) % 2).astype(int)

    (found,) = suspicions(EasyFlip(), digit, rows, digit(rows))
    assert float(found.evidence["value"]) < 0.005  # type: ignore[arg-type]
    border = (rows[:, 0] > 5).astype(int)
    assert suspicions(EasyFlip(), lambda a: (a[:, 0] > 5).astype(int), rows, border) == []


def test_a_chessboard_flips_and_a_border_does_not() -> None:
    (found,) = suspicions(EasyFlip(least=0.1), lambda a: (a.sum(axis=1) % 2).astype(int), X, Y)
    assert float(found.evidence["value"]) < 0.1  # type: ignore[arg-type]
    assert suspicions(EasyFlip(), lambda a: (a[:, 0] > 200).astype(int), X, Y) == []
