from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trainers import OptimizerNeverStepped
from mothtrap.core.findings import Severity
from mothtrap.rules.optimizer_never_steps import optimizer_never_steps


def test_an_optimizer_that_is_never_stepped() -> None:
    told = {"optimizer": "Adam", "model": "GAN", "calls": 64, "parameter": "g.0.weight"}
    fact = OptimizerNeverStepped(step=64, parameters=8, location="t.py:9", **told)
    [finding] = optimizer_never_steps().check(window(loss(np.ones(80)), fact))
    assert (finding.severity, finding.location) == (Severity.WARNING, "t.py:9")
    assert "Adam of GAN never stepped in 64 calls" in finding.message


def test_stays_quiet() -> None:
    assert optimizer_never_steps().check(window(loss(np.ones(80)))) == []
    with pytest.raises(NotEnoughData):
        optimizer_never_steps().check(window())
