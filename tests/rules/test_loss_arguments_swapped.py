from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.loss_arguments_swapped import loss_arguments_swapped


def call(step: int, operation: str = "binary_cross_entropy", **more: object) -> LossCall:
    options = {"function": "binary_crossentropy", "location": "train.py:9", **more}
    return LossCall(step=step, operation=operation, **options)


def check(*calls: LossCall) -> list[Finding]:
    return loss_arguments_swapped().check(window(*calls))


def test_a_target_that_the_model_computes() -> None:
    [finding] = check(call(0), call(3, swapped=True), call(4, swapped=True))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 3, 2)
    assert finding.location == "train.py:9"
    assert "binary_crossentropy is given the prediction as its target" in finding.message


def test_a_divergence_beside_a_class_loss() -> None:
    [finding] = check(call(0), call(2, "kl_div", function="kl_div", swapped=True))
    assert finding.message.startswith("kl_div is given the prediction as its target")


def test_stays_quiet() -> None:
    assert check(call(0), call(1)) == []


def test_does_not_apply_to_losses_that_are_the_same_both_ways() -> None:
    with pytest.raises(NotApplicable):
        check(call(0, "elementwise", swapped=True))
    with pytest.raises(NotApplicable):
        check(call(0, function=""))
