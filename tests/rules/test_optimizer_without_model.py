from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import IdleOptimizer
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.optimizer_without_model import optimizer_without_model


def idle(own_steps: int = 5, twins: int = 4, step: int = 4) -> IdleOptimizer:
    return IdleOptimizer(
        step=step,
        optimizer="Adam",
        own_steps=own_steps,
        parameters=4,
        twins=twins,
        twin="body.0.weight",
        location="model.py:9",
    )


def check(*seen: IdleOptimizer, steps: int = 10) -> list[Finding]:
    return optimizer_without_model().check(window(*seen, steps=steps))


def test_fires_when_another_model_gets_the_gradients() -> None:
    [finding] = check(idle())
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.layers == ("body.0.weight",)
    assert finding.location == "model.py:9"
    assert "none of its 4 parameters has a gradient" in finding.message
    assert "3 more" in finding.message


def test_a_model_that_is_replaced_on_the_way_is_dated_there() -> None:
    [finding] = check(idle(step=54), steps=60)
    assert finding.step == 50


def test_an_optimizer_without_gradients_alone_is_not_its_concern() -> None:
    assert check(idle(twins=0)) == []


def test_forgets_an_optimizer_that_gets_gradients_after_all() -> None:
    assert check(idle(), idle(own_steps=0, twins=0, step=8)) == []


def test_few_steps_prove_nothing() -> None:
    with pytest.raises(NotEnoughData, match=r"needs 5 steps, saw 3"):
        check(steps=3)
