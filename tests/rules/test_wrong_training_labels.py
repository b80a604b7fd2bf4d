from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import structs
from tests.rules.classified import classified
from tests.rules.evaluations import evaluations
from tests.rules.windows import loss, window

from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import DropoutRate, Evaluation, TrainingMode
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.wrong_training_labels import WrongTrainingLabels

NOISY = ((40, 5, 5), (5, 40, 5), (5, 5, 40))
"""A fifth of the labels is contradicted."""


def calls(surest: tuple[int, int] = (37, 7), *, looks: int = 12) -> list[LossCall]:
    """Loss calls every 16 steps, with as many labels in the surest quarter as given."""
    return [
        structs.replace(call, targets=structs.replace(call.targets, surest=surest))
        for call in classified(NOISY, looks=looks)
        if call.targets is not None
    ]


def evaluated(
    train: float | np.ndarray = 0.8, *, count: int = 8, value: float | np.ndarray = 0.4
) -> list[Evaluation]:
    value_E, train_E = value * np.ones(count), train * np.ones(count)
    found = evaluations(value_E, train_E, every=20, guess=math.log(3), rows=300)
    # Only the first evaluations of a site count labels.
    counted = [structs.replace(one, label_counts=(100, 100, 100)) for one in found[:3]]
    return [*counted, *found[3:]]


def check(*parts: Fact | Series) -> list[Finding]:
    return WrongTrainingLabels().check(window(*parts))


def test_sure_contradictions_of_training_labels_only() -> None:
    [finding] = check(*calls(), *evaluated())
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 32, 160)
    assert finding.location == "train.py:9"
    assert "contradicts 20 % of the training labels, and 19 % in the quarter" in finding.message
    assert "the training loss is 0.8, the evaluation loss 0.4" in finding.message


def test_labels_that_are_memorized_later_are_reported_still() -> None:
    values = evaluated(count=10)
    later = [structs.replace(one, train_losses={"train.py:10 Adam": 0.1}) for one in values[6:]]
    [finding] = check(*calls(), *values[:6], *later)
    assert finding.last_step == 120


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((*calls((37, 1)), *evaluated()), id="unsure in training: dropout, crops"),
        pytest.param((*calls(), *evaluated(0.45)), id="evaluation labels are as bad"),
        pytest.param((*calls(), *evaluated(value=0.75 ** np.arange(8))), id="still learning"),
        pytest.param((*calls(looks=2), *evaluated()), id="few labels"),
        pytest.param(
            (*calls(), *evaluated(0.7 ** np.arange(-0.5, 7), value=0.7 ** np.arange(8))),
            id="the mean over an epoch lags behind the loss after it",
        ),
    ],
)
def test_stays_quiet(parts: tuple[Fact, ...]) -> None:
    assert check(*parts) == []


def _weighted() -> list[LossCall]:
    return [
        structs.replace(call, targets=structs.replace(call.targets, weighted=True))
        for call in calls()
        if call.targets is not None
    ]


def _game() -> tuple[Series, Series]:
    turns = np.arange(0, 100, 2)
    return (
        loss(np.ones(50), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(50), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )


MOSTLY_DROPPED = TrainingMode(
    step=0,
    module="Net",
    module_type="Net",
    trains=True,
    dropouts=("1",),
    rates=(DropoutRate(name="1", rate=0.8),),
)


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ((*_weighted(), *evaluated()), NotApplicable),
        (([structs.replace(call, alone=False) for call in calls()], evaluated()), NotApplicable),
        ((*_game(), *calls(), *evaluated()), NotApplicable),
        ((MOSTLY_DROPPED, *calls(), *evaluated()), NotApplicable),
        ((*calls(), *evaluated(count=3)), NotEnoughData),
        (calls(), NotEnoughData),
    ],
    ids=["class weights", "two terms", "a game", "mostly dropped", "three", "no evaluation"],
)
def test_cannot_judge(parts: tuple[Fact, ...], kind: type[CannotJudge]) -> None:
    flat = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    with pytest.raises(kind):
        check(*flat)
