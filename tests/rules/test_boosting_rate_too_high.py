from __future__ import annotations

import numpy as np
import pytest
from tests.rules.boosting import PLACE, began, ended, held_out, training
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.boosting_rate_too_high import boosting_rate_too_high

FALLS = np.geomspace(0.6, 0.05, 60)
FAST = began(learning_rate=1.5)


def check(*parts, rule: boosting_rate_too_high = boosting_rate_too_high()):  # noqa: B008
    return rule.check(window(*parts))


def test_a_training_that_ends_above_its_beginning_is_an_error() -> None:
    [finding] = check(FAST, training(np.geomspace(0.6, 5.0, 60)))
    assert (finding.severity, finding.location) == (Severity.ERROR, PLACE)
    [finding] = check(FAST, training(np.append(np.geomspace(0.6, 5.0, 50), [np.nan] * 10)))
    assert finding.severity is Severity.ERROR


def test_a_training_loss_that_rises_at_once_is_a_warning() -> None:
    [finding] = check(FAST, training(np.append([0.6, 0.9], FALLS)))
    assert finding.severity is Severity.WARNING
    assert "rose in round 1" in finding.message


def test_a_rate_beyond_two_is_an_error_from_the_first_round_on() -> None:
    [finding] = check(began(learning_rate=10.0))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert "corrects 10 times the remaining error" in finding.message
    with pytest.raises((NotApplicable, NotEnoughData)):
        check(began(learning_rate=1.9))


def test_an_evaluation_that_is_best_at_once_is_a_warning() -> None:
    rises = np.append([0.5, 0.45], np.linspace(0.5, 0.9, 58))
    [finding] = check(FAST, training(FALLS), *held_out(rises))
    assert "best after 2 of 60 rounds" in finding.message
    [finding] = check(began(learning_rate=1.5, train_site=""), *held_out(rises))
    assert finding.severity is Severity.WARNING


def test_a_training_that_stopped_at_once_is_a_warning() -> None:
    rises = np.array([0.9, 2.0, 4.0, 8.0, 16.0, 30.0])
    huge = {"learning_rate": 1.5, "train_site": "", "stops_after": 5, "stops_on": "valid/logloss"}
    [finding] = check(began(**huge), *held_out(rises), ended(6, best=0))
    assert finding.severity is Severity.WARNING
    assert "best after 1 of 6 rounds" in finding.message
    for changed in ({"stops_after": None}, {"learning_rate": 0.9}):
        with pytest.raises(NotEnoughData):
            check(began(**{**huge, **changed}), *held_out(rises), ended(6, best=0))
    with pytest.raises(NotEnoughData):
        check(began(**huge), *held_out(rises))
    with pytest.raises(NotEnoughData):
        check(began(**huge), *held_out(rises[::-1]), ended(6))


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((began(), training(FALLS[::-1])), id="the default rate"),
        pytest.param((FAST, training(FALLS)), id="it falls"),
        pytest.param((FAST, training(FALLS), *held_out(FALLS + 0.1)), id="both fall"),
        pytest.param(
            (FAST, *held_out(np.append(FALLS[:20], np.full(40, FALLS[19] * 1.2)))),
            id="best after a third of the rounds",
        ),
    ],
)
def test_stays_quiet(parts) -> None:
    assert check(*parts) == []


def test_thresholds_are_what_they_say() -> None:
    seen = FAST, training(np.geomspace(0.6, 5.0, 60))
    assert check(*seen, rule=boosting_rate_too_high(rate=1.6)) == []
    with pytest.raises(NotEnoughData, match="needs 61 rounds"):
        check(*seen, rule=boosting_rate_too_high(rounds=61))
    late = FAST, training(np.append([0.6, 0.5, 0.4, 0.3, 0.35], FALLS[:30] / 3))
    assert check(*late) == []
    assert check(*late, rule=boosting_rate_too_high(begin=4))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no trees"):
        check(began(learning_rate=None), training(FALLS))
    with pytest.raises(NotApplicable, match="no evals"):
        check(began(series="", sites=(), train_site=""))
