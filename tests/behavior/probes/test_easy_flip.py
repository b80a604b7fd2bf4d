"""A model that a hair's breadth flips is named."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.easy_flip import EasyFlip

X = np.random.default_rng(0).integers(0, 400, size=(400, 2)).astype(float)
Y = (X[:, 0] > 200).astype(int)


def test_a_chessboard_flips_and_a_border_does_not() -> None:
    (found,) = suspicions(EasyFlip(least=0.1), lambda a: (a.sum(axis=1) % 2).astype(int), X, Y)
    assert float(found.evidence["value"]) < 0.1  # type: ignore[arg-type]
    assert suspicions(EasyFlip(), lambda a: (a[:, 0] > 200).astype(int), X, Y) == []
