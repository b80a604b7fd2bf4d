from __future__ import annotations

import numpy as np
import pytest
from tests.rules.boosting import began
from tests.rules.evaluations import PLACE, evaluations
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.overtraining import Overtraining

DOWN = np.geomspace(2.0, 0.5, 10)
WORSE = np.concatenate([DOWN, np.linspace(0.55, 0.9, 12)])
RESTS = np.concatenate([DOWN, np.full(12, 0.5)])
FALLING = np.geomspace(2.0, 0.1, 22)


def check(
    found: list[Evaluation],
    rule: Overtraining = Overtraining(),  # noqa: B008
) -> list[Finding]:
    return rule.check(window(*found))


def test_warns_where_evaluation_got_worse_for_long() -> None:
    [finding] = check(evaluations(WORSE, FALLING))
    assert finding.severity is Severity.WARNING
    assert (finding.step, finding.count) == (110, 12)
    assert "has not fallen by 0.01 in 12 evaluations: it rose from 0.5 to 0.9" in finding.message


def test_notes_that_nothing_gets_better() -> None:
    [finding] = check(evaluations(RESTS, FALLING))
    assert finding.severity is Severity.INFO
    assert finding.step == 110
    assert "has not fallen by 0.01 in" in finding.message


def test_boosting_that_comes_to_rest_is_none() -> None:
    boosted = began(sites=("train", PLACE))
    assert Overtraining().check(window(boosted, *evaluations(RESTS, FALLING))) == []
    [finding] = Overtraining().check(window(boosted, *evaluations(WORSE, FALLING)))
    assert finding.severity is Severity.WARNING


def test_a_little_that_was_lost_again_is_a_note() -> None:
    lost = np.concatenate([DOWN, np.full(12, 0.53)])
    [finding] = check(evaluations(lost, FALLING))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(FALLING, id="it falls"),
        pytest.param(WORSE[:18], id="not for long enough"),
        pytest.param(np.concatenate([WORSE[:18], [0.4, 0.4, 0.4, 0.4]]), id="it came back"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(evaluations(values, FALLING[: len(values)])) == []


def test_does_not_apply_to_a_gan() -> None:
    turns = np.arange(0, 100, 2)
    game = (
        loss(np.ones(50), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(50), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    with pytest.raises(NotApplicable, match="compete with"):
        Overtraining().check(window(*game, *evaluations(WORSE)))


def test_cannot_judge_a_few_evaluations() -> None:
    with pytest.raises(NotEnoughData, match="needs 6 evaluations"):
        check(evaluations(WORSE[:5], FALLING[:5]))


def test_cannot_judge_evaluations_alone_before_their_own_patience() -> None:
    with pytest.raises(NotEnoughData, match="needs 11 evaluations"):
        check(evaluations(WORSE[:10]))
    assert check(evaluations(WORSE[:11])) == []


# The parameters of the rule Overtraining of SageMaker Debugger.


def test_patience_validation_is_patience_validation() -> None:
    assert check(evaluations(RESTS), Overtraining(patience_validation=12))
    assert check(evaluations(RESTS), Overtraining(patience_validation=13)) == []


def test_patience_train_is_patience_train() -> None:
    found = evaluations(FALLING, RESTS)
    [finding] = check(found, Overtraining(patience_train=12))
    assert "training loss has not fallen by 0.01 in 12 evaluations" in finding.message
    assert check(found, Overtraining(patience_train=13)) == []


def test_delta_is_delta_with_absolute() -> None:
    slow = evaluations(1.0 - 0.004 * np.arange(22))
    assert check(slow, Overtraining(absolute=True, delta=0.2))
    assert check(slow, Overtraining(absolute=True, delta=0.01)) == []
    assert check(slow, Overtraining(delta=0.0101)) == []


def test_a_program_that_evaluates_at_every_step_needs_more_of_them() -> None:
    steps = np.arange(400)
    for bad, fires in ((15, False), (40, True)):
        values = np.where(steps < 400 - bad, 0.5 + np.exp(-steps / 90), 0.7)
        warned = [f for f in check(evaluations(values, every=1)) if f.severity is Severity.WARNING]
        assert bool(warned) is fires


def test_a_best_evaluation_that_left_the_window_is_dated_all_the_same() -> None:
    found = evaluations(np.concatenate([np.linspace(2.0, 0.5, 30), np.full(60, 0.9)]))
    [finding] = check(found[:16] + found[40:])
    assert finding.severity is Severity.WARNING
    assert finding.step == 410
