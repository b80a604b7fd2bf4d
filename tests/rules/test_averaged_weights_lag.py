from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.epochs import epochs
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import WeightsAveraged
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.averaged_weights_lag import averaged_weights_lag
from mothtrap.testing import RuleTests


def averaged(momentum: float, updates: int) -> WeightsAveraged:
    return WeightsAveraged(step=updates, momentum=momentum, updates=updates, location="train.py:4")


class TestAveragedWeightsLag(RuleTests):
    rule = averaged_weights_lag

    def sick(self) -> Iterable[Window]:
        yield window(averaged(0.9999, 500))
        yield window(averaged(0.999, 1000))

    def healthy(self) -> Iterable[Window]:
        yield window(averaged(0.99, 500))
        yield window(averaged(0.9999, 500), averaged(0.9999, 50_000))


def test_the_share_is_told_with_its_line() -> None:
    [finding] = averaged_weights_lag().check(window(averaged(0.9999, 500)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 500)
    assert finding.location == "train.py:4"
    assert (
        "95 % of the averaged weights still comes from the initial weights (limit 10 %), after 500"
        in finding.message
    )


def test_without_averages_it_does_not_apply() -> None:
    with pytest.raises(NotEnoughData):
        averaged_weights_lag().check(window())
    with pytest.raises(NotApplicable):
        averaged_weights_lag().check(window(*epochs({"loss": [1.0]})))
