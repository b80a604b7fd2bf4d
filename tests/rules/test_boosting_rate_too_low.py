from __future__ import annotations

import numpy as np
import pytest
from tests.rules.boosting import began, ended, held_out, table, training
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.boosting_rate_too_low import boosting_rate_too_low


def check(*parts, rule: boosting_rate_too_low = boosting_rate_too_low()):  # noqa: B008
    return rule.check(window(*parts))


SLOW = began(learning_rate=0.001)
LINE = np.linspace(0.69, 0.65, 100)


def test_a_loss_that_falls_to_the_end_as_in_the_beginning_is_a_warning() -> None:
    [finding] = check(SLOW, training(LINE), *held_out(LINE), ended(100))
    assert finding.severity is Severity.WARNING
    assert "learning rate of 0.001" in finding.message
    [finding] = check(began(learning_rate=0.001, sites=()), training(LINE), ended(100))
    assert "the training loss" in finding.message


def test_few_rounds_are_a_note() -> None:
    fit = began(learning_rate=0.01)
    [finding] = check(fit, training(LINE[:10]), *held_out(LINE[:10]), ended(10))
    assert finding.severity is Severity.INFO


def test_a_rate_that_hardly_moves_the_predictions_needs_few_rounds() -> None:
    [finding] = check(SLOW, training(LINE[:5]), *held_out(LINE[:5]), ended(5))
    assert finding.severity is Severity.WARNING
    [finding] = check(SLOW, training(LINE[:4]), *held_out(LINE[:4]), ended(4))
    assert finding.severity is Severity.INFO


def test_a_penalty_counts_without_a_known_rate() -> None:
    fit = began(learning_rate=None, parameters={"l2_leaf_reg": "1e9"})
    [finding] = check(fit, table(), training(LINE), ended(100))
    assert "100 rounds moved the predictions at most" in finding.message
    assert "l2_leaf_reg" in finding.message
    assert "l2_leaf_reg" in finding.fixes[0]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((began(learning_rate=0.1), training(LINE)), id="enough rounds"),
        pytest.param((SLOW, training(np.geomspace(0.69, 0.1, 100))), id="it levels off"),
        pytest.param(
            (began(learning_rate=0.001, stops_after=5, rounds_asked=500), training(LINE)),
            id="it stopped early",
        ),
        pytest.param((began(learning_rate=0.001, rounds_before=900), training(LINE)), id="goes on"),
    ],
)
def test_stays_quiet(parts) -> None:
    assert check(*parts, ended(100)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="has not ended"):
        check(SLOW, training(LINE))
    with pytest.raises(NotApplicable, match="is unknown"):
        check(began(learning_rate=None), training(LINE), ended(100))
    with pytest.raises(NotApplicable, match="no evals"):
        check(began(learning_rate=0.001, sites=(), series=""), ended(100))
