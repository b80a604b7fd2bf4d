"""Two models with different errors are better together."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import outcome

from mothtrap.behavior.probes.ensemble_helps import EnsembleHelps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(0, 0.3, 1500)


def truth(a: np.ndarray) -> np.ndarray:
    return a[:, 0] * a[:, 1] + a[:, 2]


def test_errors_of_its_own_are_averaged_out() -> None:
    found = outcome(EnsembleHelps(), lambda a: truth(a) + 0.4 * np.sin(1e5 * a[:, 3]), X, Y)
    assert len(found.findings) == 1


def test_the_truth_needs_no_help() -> None:
    assert outcome(EnsembleHelps(), truth, X, Y).findings == ()
