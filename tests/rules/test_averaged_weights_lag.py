from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.epochs import epochs
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import WeightsAveraged
from mothtrap.core.facts.evaluations import CopyLag, EvaluatedCopy
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.averaged_weights_lag import averaged_weights_lag
from mothtrap.testing import RuleTests


def averaged(momentum: float, updates: int) -> WeightsAveraged:
    return WeightsAveraged(step=updates, momentum=momentum, updates=updates, location="train.py:4")


def copied(moved: float, steps: int = 900, ran: int | None = None) -> CopyLag:
    return CopyLag(
        step=1000, module="ema", moved=moved, steps=steps, looks=9, ran=ran, location="ema.py:7"
    )


def looks(*digests: str) -> list[EvaluatedCopy]:
    return [
        EvaluatedCopy(step=100 * number, module="ema", digest=digest)
        for number, digest in enumerate(digests)
    ]


class TestAveragedWeightsLag(RuleTests):
    rule = averaged_weights_lag

    def sick(self) -> Iterable[Window]:
        yield window(averaged(0.9999, 500))
        yield window(averaged(0.999, 1000))
        yield window(copied(0.004))
        yield window(copied(0.2, ran=9), *looks(*"abcd"))

    def healthy(self) -> Iterable[Window]:
        yield window(averaged(0.99, 500))
        yield window(averaged(0.9999, 500), averaged(0.9999, 50_000))
        yield window(copied(0.7))
        yield window(copied(0.0))  # it never changes
        yield window(copied(0.004, steps=100))
        yield window(copied(0.2, ran=900), *looks(*"abcd"))  # a slow target of the training
        yield window(copied(0.2, ran=9), *looks(*"abbc"))  # the best weights so far
        yield window(copied(0.2), *looks(*"abcd"))  # a run of an older version
        yield window(copied(0.5, ran=9), *looks(*"abcd"))


def test_the_share_is_told_with_its_line() -> None:
    [finding] = averaged_weights_lag().check(window(averaged(0.9999, 500)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 500)
    assert finding.location == "train.py:4"
    assert (
        "95 % of the averaged weights still comes from the initial weights (limit 10 %), after 500"
        in finding.message
    )


def test_a_copy_that_hardly_follows_is_named() -> None:
    [finding] = averaged_weights_lag().check(window(copied(0.004)))
    assert (finding.severity, finding.location) == (Severity.WARNING, "ema.py:7")
    assert "moved only 0.004 times as far as the trained weights in 900 steps" in finding.message
    assert (finding.step, finding.last_step) == (100, 1000)
    assert finding.fixes[0].startswith("Lower the momentum")


def test_without_averages_it_does_not_apply() -> None:
    with pytest.raises(NotEnoughData):
        averaged_weights_lag().check(window())
    with pytest.raises(NotApplicable):
        averaged_weights_lag().check(window(*epochs({"loss": [1.0]})))
