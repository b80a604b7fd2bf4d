"""Rows that are far off are listed, the farthest first."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import outcome

from mothtrap.behavior.probes.outlier_rows import OutlierRows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 3))
Y = X[:, 0] + RNG.normal(0, 0.2, 1500)


def test_rows_with_wrong_units_are_listed() -> None:
    wrong = Y.copy()
    wrong[[7, 400]] += [50, 90]
    found = outcome(OutlierRows(), lambda a: a[:, 0], X, wrong)
    (finding,) = found.findings
    assert found.rows[finding.fingerprint].tolist() == [400, 7]
    assert finding.evidence["agreeing"] == 2


def test_swapped_labels_of_a_sure_model_are_listed() -> None:
    y = (X[:, 0] > 0).astype(int)
    y[:8] = 1 - y[:8]

    def certain(a: np.ndarray) -> np.ndarray:
        return np.where(a[:, 0] > 0, 0.9999, 0.0001)

    found = outcome(OutlierRows(), certain, X, y)
    (finding,) = found.findings
    assert set(found.rows[finding.fingerprint]) == set(range(8))


def test_usual_errors_are_fine() -> None:
    assert outcome(OutlierRows(), lambda a: a[:, 0], X, Y).findings == ()
    y = (RNG.random(1500) < 0.9).astype(int)
    assert outcome(OutlierRows(), lambda a: np.full(len(a), 0.9), X, y).findings == ()
