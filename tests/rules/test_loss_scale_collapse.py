from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.loss_scale_collapse import LossScaleCollapse


def check(scales, skipped=()):
    return LossScaleCollapse().check(window(series("loss_scale", scales), skipped=skipped))


def test_fires_when_the_scale_falls_below_one() -> None:
    scales = [65536.0] * 10 + [2.0**-k for k in range(-8, 4)]
    [finding] = check(scales)
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 9, 13)


def test_fires_when_step_after_step_is_skipped() -> None:
    skipped = [0, 1, *range(150, 300, 3)]
    [finding] = check(np.full(300, 1024.0), skipped)
    assert finding.severity is Severity.ERROR
    assert 150 <= finding.step <= 160
    assert "33 %" in finding.message or "34 %" in finding.message


@pytest.mark.parametrize(
    "skipped", [[], range(60), [5, 110, 220]], ids=["none", "while it is found", "now and then"]
)
def test_stays_quiet_on_a_working_scaler(skipped) -> None:
    assert check(np.full(300, 1024.0), skipped) == []


def test_a_scale_that_recovers_is_no_collapse() -> None:
    assert check([4.0, 0.5, 0.25, 1.0, 2.0]) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no gradient scaler"):
        LossScaleCollapse().check(window(loss([1.0] * 5)))
    with pytest.raises(NotEnoughData):
        LossScaleCollapse().check(window(steps=0))
