from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.estimators import TransformRefitted
from mothtrap.core.findings import Severity
from mothtrap.rules.preprocessing_refitted import preprocessing_refitted


def test_a_scaler_that_is_fitted_to_evaluation_rows() -> None:
    told = {"transform": "StandardScaler", "train_rows": 300, "eval_rows": 100}
    refitted = TransformRefitted(step=1, location="t.py:9", **told)
    [finding] = preprocessing_refitted().check(window(loss(np.ones(2)), refitted))
    assert (finding.severity, finding.location) == (Severity.WARNING, "t.py:9")
    assert "300 training rows, and fitted again to the 100 rows" in finding.message


@pytest.mark.parametrize("supervised", [False, True])
def test_a_transformer_that_is_fitted_to_all_rows(supervised: bool) -> None:
    told = {"transform": "SelectKBest", "train_rows": 300, "eval_rows": 100}
    seen = TransformRefitted(step=1, whole=True, supervised=supervised, location="t.py:9", **told)
    [finding] = preprocessing_refitted().check(window(loss(np.ones(2)), seen))
    assert finding.severity is (Severity.WARNING if supervised else Severity.INFO)
    assert "fitted to all 400 rows" in finding.message
    assert "Split first" in finding.fixes[0]


def test_stays_quiet() -> None:
    assert preprocessing_refitted().check(window(loss(np.ones(2)))) == []
    with pytest.raises(NotEnoughData):
        preprocessing_refitted().check(window())
