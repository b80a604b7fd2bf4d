from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import SingleTimeSteps
from mothtrap.core.findings import Severity
from mothtrap.rules.one_time_step import one_time_step


@pytest.mark.parametrize(
    ("features", "severity", "fix"),
    [(1, Severity.WARNING, "last time steps"), (8, Severity.INFO, "make them the time steps")],
)
def test_a_single_number_is_a_warning(features: int, severity: Severity, fix: str) -> None:
    told = SingleTimeSteps(step=0, layers=("lstm",), features=features, location="a.py:3")
    [finding] = one_time_step().check(window(told))
    assert (finding.severity, finding.location, finding.layers) == (severity, "a.py:3", ("lstm",))
    assert "lstm sees one time step" in finding.message
    assert fix in finding.fixes[0]


def test_other_models_are_fine_once_they_have_made_a_step() -> None:
    assert not one_time_step().check(window(steps=5))
    with pytest.raises(NotEnoughData):
        one_time_step().check(window(steps=0))
