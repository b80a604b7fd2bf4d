"""A spread that grows with a column is a note; an even spread and a missed curve are not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.behavior.asking import outcome, suspicions

from mothtrap.behavior.probes.uneven_spread import UnevenSpread
from mothtrap.core.errors import NotApplicable

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(3000, 4))


def test_a_growing_spread_is_named() -> None:
    y = X[:, 0] + (0.1 + 2 * X[:, 2]) * RNG.normal(size=3000)
    (finding,) = outcome(UnevenSpread(), lambda a: a[:, 0], X, y).findings
    assert finding.layers == ("input:x2",)


def test_an_even_spread_is_fine() -> None:
    y = X[:, 0] + RNG.normal(size=3000)
    assert outcome(UnevenSpread(), lambda a: a[:, 0], X, y).findings == ()


def test_classes_have_no_spread() -> None:
    with pytest.raises(NotApplicable):
        suspicions(UnevenSpread(), lambda a: a[:, 0], X, (X[:, 1] > 0.5).astype(int))
