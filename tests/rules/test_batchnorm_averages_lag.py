from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs
from tests.rules.evaluations import evaluations
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import NormAverages, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.batchnorm_averages_lag import BatchnormAveragesLag

SLOW = NormAverages(step=0, module="net/bn", momentum=0.0001, updates=1, location="model.py:4")
FALLING = 0.8 ** np.arange(20)
BAD = np.full(20, 2.0)


def check(*parts: Fact | Series) -> list[Finding]:
    return BatchnormAveragesLag().check(window(*parts))


def test_evaluations_that_stay_bad_while_averages_lag_are_a_warning() -> None:
    [finding] = check(SLOW, *evaluations(BAD, FALLING))
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 10, 20)
    assert (finding.layers, finding.location) == (("net/bn",), "model.py:4")
    assert "the running averages of net/bn are still 98 % initial values" in finding.message


def test_averages_that_follow_slowly_are_a_warning_though_the_loss_falls() -> None:
    [finding] = check(SLOW, *evaluations(2.0 * 0.9 ** np.arange(20), FALLING / 10))
    assert "are still 98 % initial values" in finding.message
    falls = evaluations(2.0 * 0.9 ** np.arange(20), FALLING / 10)
    [finding] = check(structs.replace(SLOW, momentum=0.005), *falls)
    assert "are still 37 % initial values" in finding.message
    assert check(structs.replace(SLOW, momentum=0.007), *falls) == []
    soon = evaluations(2.0 * 0.8 ** np.arange(8), FALLING[:8] / 10)  # the default of Keras
    assert check(structs.replace(SLOW, momentum=0.01), *soon) == []


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param((SLOW, *evaluations(FALLING, FALLING)), id="evaluations are good anyhow"),
        pytest.param(
            (structs.replace(SLOW, momentum=0.1), *evaluations(BAD, FALLING)),
            id="the averages have followed: something else is wrong",
        ),
        pytest.param((SLOW, *evaluations(FALLING - 2, FALLING - 2)), id="losses below 0"),
        pytest.param(
            (SLOW, *evaluations([1.2, 0.4, *np.linspace(0.6, 0.9, 18)], FALLING)),
            id="evaluation had learned: it is overfit",
        ),
        pytest.param(
            (structs.replace(SLOW, step=300), *evaluations(BAD, FALLING)),
            id="the batch norm is of a later model",
        ),
        pytest.param(
            (
                structs.replace(SLOW, momentum=0.01, per_step=8),
                *evaluations(BAD, FALLING),
            ),
            id="many batches a step",
        ),
        pytest.param(
            (SLOW, *evaluations(np.append(np.full(19, 2.0), 0.01), FALLING)), id="the last is good"
        ),
    ],
)
def test_stays_quiet(healthy: tuple[Fact, ...]) -> None:
    assert check(*healthy) == []


def test_the_slowest_of_several_counts() -> None:
    quick = structs.replace(SLOW, module="quick", momentum=0.5)
    [finding] = check(quick, SLOW, *evaluations(BAD, FALLING))
    assert finding.layers == ("net/bn",)


def test_few_evaluations_are_not_judged() -> None:
    with pytest.raises(NotEnoughData, match="fewer than 3 evaluations"):
        check(SLOW, *evaluations([2.0, 2.0], [0.1, 0.1]))


def test_without_batch_norms_it_does_not_apply() -> None:
    with pytest.raises(NotApplicable, match="no trained model has batch norms"):
        check(TrainingMode(step=0, module="net", module_type="Net", trains=True))


def test_a_game_is_not_judged() -> None:
    turns = np.arange(0, 40, 2)
    game = (
        loss(np.ones(20), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(20), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    with pytest.raises(NotApplicable, match="compete"):
        check(SLOW, *game, *evaluations(BAD, FALLING))
