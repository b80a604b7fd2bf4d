from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.weights import MADE, facts, tensors
from tests.rules.windows import loss, noise, series, window

from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix, Series
from mothtrap.rules.learning_rate_too_high import LearningRateTooHigh

ADAM_1 = [12.0, 0.7, 0.4, 0.2, 0.08, 0.02, 0.005, 3e-4]
ADAM_HUNDREDTH = [0.13, 0.09, 0.07, 0.06, 0.05, 0.04, 0.02, 0.01]
STEADY = [0.13, 0.29, 0.34, 0.31, 0.39, 0.2, 0.15, 0.12]
FALLING = 2.3 * np.exp(-np.arange(300) / 60) + 0.05
JUMPED = np.concatenate([[2.3, 150, 90, 60, 22, 7], np.full(294, 2.35)])


def ratios(first: list[float]) -> Matrix:
    return tensors("update_ratio", {"0.weight": first, "2.weight": [1.5 * v for v in first]})


def check(
    *parts: Series | Matrix | OptimizerFacts, rate: float | np.ndarray = 0.3, steps: int = 300
) -> list[Finding]:
    return LearningRateTooHigh().check(
        window(series("lr", np.broadcast_to(rate, steps)), *parts, steps=steps)
    )


def test_fires_when_the_loss_jumps_and_comes_back_to_where_it_began() -> None:
    [finding] = check(loss(JUMPED), ratios(ADAM_1), facts(rate=0.3))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == MADE
    assert finding.layers[0] == "2.weight"
    assert finding.fixes[0] == "Lower the learning rate from 0.3 to 0.0001."


def test_the_place_is_the_step_of_an_optimizer_that_was_created_before_watch() -> None:
    known = msgspec.structs.replace(facts(rate=0.3), location=None, stepped_at="train.py:9")
    [finding] = check(loss(JUMPED), ratios(ADAM_1), known)
    assert finding.location == "train.py:9"


def test_says_how_long_after_its_jump_the_loss_is_where_it_is() -> None:
    [finding] = check(loss(JUMPED), ratios(ADAM_1), facts(rate=0.3))
    assert " steps later" in finding.message
    rising = [2.3, 5.0, 9.0, 14.0, 28.0, 40.0, 48.0]
    [finding] = check(loss(rising), ratios([1.5] * 4), steps=7)
    assert finding.message.endswith("the loss rose to 17.4 times its initial value")


def test_fires_when_the_loss_runs_away_to_nan() -> None:
    values = [1.4, 0.8, 0.9, 2.3, 51.0, 250.0, 1e9, *[np.nan] * 20]
    [finding] = check(
        loss(values), ratios([0.2, 0.3, 0.2, 11.0]), facts(kind="SGD", rate=1.0), steps=27
    )
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.evidence["value"] == pytest.approx(0.25)  # at step 2, before the rise


def test_the_onset_is_where_a_schedule_reached_the_rate() -> None:
    rate = np.concatenate([np.full(128, 1e-3), np.full(172, 1.0)])
    values = np.concatenate([np.full(129, 1.0), [40.0, 60.0, 30.0], np.full(168, 1.1)])
    steps = [0, 1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    change = tensors("update_ratio", {"a": [0.001] * 8 + [9.0, 0.2, 0.2]}, steps=steps)
    [finding] = check(loss(values), change, rate=rate)
    assert (finding.severity, finding.step) == (Severity.ERROR, 128)


def test_a_rate_that_was_raised_between_two_looks_is_taken_into_account() -> None:
    rate = np.where(np.arange(300) < 150, 0.05, 3.0)
    values = np.concatenate([np.geomspace(2.3, 0.2, 151), [8.0, 90.0, 20.0], np.full(146, 2.5)])
    steps = [0, 1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    change = tensors("update_ratio", {"a": [0.01] * 9 + [0.0] * 2}, steps=steps)
    [finding] = check(loss(values), change, rate=rate)
    assert (finding.severity, finding.step) == (Severity.ERROR, 150)
    assert finding.evidence["value"] == pytest.approx(0.6)


def test_the_loss_may_turn_before_a_warm_up_ends() -> None:
    rate = np.minimum(1.0, np.arange(300) / 100)
    values = np.concatenate([np.linspace(2.3, 1.2, 20), [3.0, 8.0, 9.0, 6.0], np.full(276, 2.6)])
    change = [0.05, 0.05, 0.05, 0.1, 0.2, 0.3, 0.05, 0.01]
    [finding] = check(loss(values), ratios(change), rate=rate)
    assert finding.severity is Severity.ERROR
    assert 15 <= finding.step <= 20


def test_warns_where_large_steps_keep_the_loss_at_its_start() -> None:
    [finding] = check(loss(2.3 + noise(300, scale=0.1)), ratios(STEADY), facts(kind="SGD", rate=4))
    assert finding.severity is Severity.WARNING


def test_warns_of_a_first_step_that_threw_the_weights_away() -> None:
    values = np.concatenate([[2.3, 8.7, 6.3, 5.9, 4.0], np.linspace(2.3, 0.5, 295)])
    [finding] = check(loss(values), ratios([1.2, 0.6, 0.4, 0.2, 0.08]), rate=0.1)
    assert finding.severity is Severity.WARNING
    assert "120 %" not in finding.message  # the weight in the middle of two
    assert "step 0 changed the weights by 150 %" in finding.message


def test_warns_of_a_first_step_that_left_nothing_of_the_weights() -> None:
    begin, change = [9.2, 8.0, 8.6, 10.9, 9.9], [3.6, 0.7, 0.43, 0.2, 0.09, 0.02, 0.01, 0.01]
    [finding] = check(loss([*begin, *np.linspace(7, 2, 295)]), ratios(change), rate=0.3)
    assert finding.severity is Severity.WARNING
    assert "the loss is 0.26 times its initial value after 299 steps" in finding.message
    assert check(loss([*begin, *np.linspace(7, 0.2, 295)]), ratios(change), rate=0.3) == []
    smooth = [9.2, 8.9, 8.6, 8.0, 7.5, *np.linspace(7, 2, 295)]
    assert check(loss(smooth), ratios(change), rate=0.3) == []


@pytest.mark.parametrize(
    ("values", "change"),
    [
        pytest.param(FALLING, ADAM_HUNDREDTH, id="a usual beginning of Adam"),
        pytest.param(FALLING, ADAM_1, id="a rough beginning, and the loss falls"),
        pytest.param(1 + noise(300, scale=0.3) ** 2, ADAM_HUNDREDTH, id="nothing but noise"),
        pytest.param(np.exp(noise(300)), ADAM_HUNDREDTH, id="losses with a heavy tail"),
        pytest.param(np.full(300, 2.3), [1e-3] * 8, id="no progress with small steps"),
        pytest.param(
            np.concatenate([np.full(100, 1.0), 2.0 ** np.arange(200.0)]), [1e-3] * 8, id="a cliff"
        ),
        pytest.param(np.zeros(300), ADAM_1, id="a loss at 0"),
        pytest.param(
            np.concatenate([[0.02, 8.0, 4.0, 2.0], np.geomspace(1, 1e-3, 296)]),
            ADAM_HUNDREDTH,
            id="an old optimum that is left",
        ),
    ],
)
def test_stays_quiet(values: np.ndarray, change: list[float]) -> None:
    assert check(loss(values), ratios(change), facts()) == []


def test_an_explosion_at_an_ordinary_rate_is_not_the_rates_fault() -> None:
    values = [1.4, 30.0, 1e4, 1e9, *[np.nan] * 20]
    change = ratios([0.9, 30.0, 1e4])
    usual = facts(kind="SGD", rate=0.01, momentum=0.9)
    assert check(loss(values), change, usual, rate=0.01, steps=24) == []
    with_adam = facts(rate=0.01)
    assert check(loss(values), change, with_adam, rate=0.01, steps=24) != []


def test_zero_weights_and_vectors_do_not_count() -> None:
    change = tensors("update_ratio", {"lora_b": [np.inf] * 8, "0.weight": [0.01] * 8})
    assert check(loss(JUMPED), change) == []


def test_steps_that_loss_scaling_skipped_do_not_count() -> None:
    change = tensors("update_ratio", {"0.weight": [0.0] * 4}, skipped=(0, 1, 2, 4))
    with pytest.raises(NotEnoughData, match="no weight update"):
        check(loss(JUMPED), change)


def test_once_the_beginning_has_left_the_window_it_can_only_pass() -> None:
    late = loss(np.full(300, 2.3), total=5000)
    early = Series(**{**_fields(late), "first": 2.3})
    with pytest.raises(NotEnoughData, match="no longer in the window"):
        check(early, ratios(ADAM_1))
    recovered = Series(**{**_fields(late), "first": 23.0})
    assert check(recovered, ratios(ADAM_1)) == []


def _fields(part: Series) -> dict[str, object]:
    return {name: getattr(part, name) for name in Series.__dataclass_fields__}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((), "no loss"),
        ((loss([2.0] * 9),), "no weight update"),
        ((loss([2.0, 2.0]), ratios(ADAM_1)), "fewer than 3"),
        ((loss([np.nan] * 9), ratios(ADAM_1)), "fewer than 3"),
    ],
)
def test_says_why_it_cannot_judge(parts: tuple[Series | Matrix, ...], reason: str) -> None:
    with pytest.raises(CannotJudge, match=reason):
        check(*parts)


def test_does_not_apply_to_games_and_negative_losses() -> None:
    with pytest.raises(NotApplicable):
        check(loss(-JUMPED), ratios(ADAM_1))
    players = (loss(JUMPED, of="d", optimizers=("D",)), loss(JUMPED, of="g", optimizers=("G",)))
    with pytest.raises(NotApplicable):
        check(*players, ratios(ADAM_1))
