"""One nearest neighbor flips on noise, many do not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.flips_on_noise import FlipsOnNoise
from mothtrap.core.errors import NotApplicable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9000, 2))
Y = (X[:, 0] + RNG.normal(0, 1.5, 9000) > 0).astype(int)
TRAIN, HELD = slice(0, 7500), slice(7500, None)


@pytest.mark.parametrize(("neighbors", "count"), [(1, 1), (101, 0)])
def test_only_a_ragged_border_is_named(neighbors: int, count: int) -> None:
    model = KNeighborsClassifier(neighbors).fit(X[TRAIN], Y[TRAIN])
    found = suspicions(FlipsOnNoise(), model.predict, X[HELD], Y[HELD])
    assert len(found) == count
    for one in found:
        assert len(one.rows) == round(float(one.evidence["value"]) * len(X[HELD]))  # type: ignore[arg-type]


def test_numbers_are_not_classes() -> None:
    with pytest.raises(NotApplicable):
        suspicions(FlipsOnNoise(), lambda a: a[:, 0], X[HELD], X[HELD][:, 0])
