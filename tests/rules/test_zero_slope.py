from __future__ import annotations

from collections.abc import Iterable

import msgspec
from tests.rules.windows import window

from mothtrap.core.facts.modules import ZeroSlope
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.zero_slope import zero_slope
from mothtrap.testing import RuleTests


def looked(found: int) -> ZeroSlope:
    return ZeroSlope(
        step=11,
        looks=5,
        found=found,
        operation="sign",
        parameters=80,
        of=100,
        layers=("encoder.0",),
        location="train.py:9",
    )


class TestZeroSlope(RuleTests):
    rule = zero_slope

    def sick(self) -> Iterable[Window]:
        yield window(looked(5))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_operation_and_the_layers_are_named() -> None:
    [finding] = zero_slope().check(window(looked(5)))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert finding.layers == ("encoder.0",)
    assert "80 % of the trained parameters only through sign" in finding.message
    assert finding.fixes[0].startswith("Pass the gradient through")


def test_an_argmax_in_a_loss_has_another_fix_than_a_rounding() -> None:
    one = msgspec.structs.replace(looked(5), operation="`argmax`")
    [finding] = zero_slope().check(window(one))
    assert finding.fixes[0].startswith("Compute the loss from the scores")
