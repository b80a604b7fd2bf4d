from __future__ import annotations

import contextlib

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, noise, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.window import Series
from mothtrap.monitor.monitor import Monitor
from mothtrap.rules.loss_diverging import LossDiverging
from mothtrap.statistics.summary import WIDTH

N = 300
FALLING = 2.3 * np.exp(-np.arange(N) / 40) + 0.1 + noise(N, scale=0.02)


def check(*parts: Series) -> list[Finding]:
    return LossDiverging().check(window(*parts))


def test_fires_on_a_runaway_from_the_first_steps() -> None:
    [finding] = check(loss(1.3 ** np.arange(40)))
    assert finding.severity is Severity.ERROR
    assert finding.step <= 5
    assert finding.location == LOSS


def test_fires_on_the_way_to_infinity() -> None:
    [finding] = check(loss([1.0, 900.0, 1e12, np.inf, np.nan, np.nan]))
    assert (finding.severity, finding.step) == (Severity.ERROR, 1)


def test_names_the_step_at_which_a_runaway_began() -> None:
    values = np.concatenate([FALLING[:200], FALLING[199] * 2.0 ** np.arange(1, 20)])
    [finding] = check(loss(values))
    assert finding.severity is Severity.ERROR
    assert abs(finding.step - 200) <= 5


def test_fires_when_all_gains_are_lost_for_good() -> None:
    values = np.concatenate([FALLING[:200], 2.4 + noise(100, scale=0.1)])
    [finding] = check(loss(values))
    assert (finding.severity, finding.step) == (Severity.ERROR, 200)


def test_warns_when_half_of_the_gains_are_lost() -> None:
    values = np.concatenate([FALLING[:200], 1.6 + noise(100, scale=0.05)])
    [finding] = check(loss(values))
    assert finding.severity is Severity.WARNING


def test_warns_when_the_loss_is_a_multiple_of_its_lowest_level() -> None:
    risen = 0.75 + noise(100, scale=0.05)
    [finding] = check(loss(np.concatenate([FALLING[:200], risen])))
    assert finding.severity is Severity.WARNING
    assert check(loss(np.concatenate([FALLING[:200], risen - 0.3]))) == []  # few gains are lost
    assert check(loss(np.concatenate([0.15 + FALLING[:200], risen]))) == []  # only three times


def test_fires_when_it_stays_above_its_beginning() -> None:
    values = np.concatenate([1 + noise(30, scale=0.05), 5 + noise(70, scale=0.5)])
    [finding] = check(loss(values))
    assert (finding.severity, finding.step) == (Severity.ERROR, 30)


RESTARTS = np.tile(np.linspace(0.6, 0.2, 60), 5)
RESTARTS[:60] = np.linspace(2.3, 0.3, 60)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(FALLING, id="falls"),
        pytest.param(np.where(np.arange(N) == 250, 80.0, FALLING), id="a spike"),
        pytest.param(RESTARTS + noise(N, scale=0.02), id="restarts"),
        pytest.param(np.exp(noise(N, scale=1.5)), id="heavy-tailed noise"),
        pytest.param(1e-7 + np.abs(noise(N, scale=1e-7)), id="noise at the floor"),
        pytest.param(
            np.concatenate([FALLING[:200], 2.5 * np.exp(-np.arange(100) / 30)]), id="other data"
        ),
        pytest.param(3.0 + 0.4 * np.sin(np.arange(N) / 20), id="a plateau that sways"),
        pytest.param(np.zeros(N), id="0 all along"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(loss(values)) == []


def check_game(rising) -> list[Finding]:
    turns = np.arange(0, 200, 2)
    return check(
        loss(rising, of="gan.py:9", optimizers=("G",), steps=turns),
        loss(np.full(100, 0.1), of="gan.py:5", optimizers=("D",), steps=turns + 1),
    )


def test_a_player_that_falls_behind_is_no_finding() -> None:
    with contextlib.suppress(NotEnoughData):  # how it goes on cannot be said
        assert check_game(np.append(np.linspace(1.3, 5.0, 20), np.full(80, 5.2))) == []


def test_never_errs_on_a_game() -> None:
    [finding] = check_game(np.linspace(0.7, 190.0, 100))
    assert finding.severity is Severity.WARNING


def test_does_not_apply_to_a_critic_without_bounds() -> None:
    with pytest.raises(NotApplicable, match="negative"):
        check(loss(-np.linspace(0.1, 500, 200)))


def test_cannot_judge_a_few_steps() -> None:
    with pytest.raises(NotEnoughData):
        check(loss([1.0, 2.0, 3.0]))


BUMPY = np.concatenate([np.geomspace(0.03, 0.0017, 400), 0.038 + noise(100, scale=0.01)])


def test_a_rise_that_is_tiny_beside_what_was_gained_is_none() -> None:
    whole = np.concatenate([np.geomspace(1.57, 0.0017, 200), 0.038 + noise(100, scale=0.01)])
    assert check(loss(whole)) == []
    assert check(loss(BUMPY, total=1254, early=[1.57] * 10)) == []


def test_the_same_rise_is_one_where_it_is_all_that_was_gained() -> None:
    assert check(loss(BUMPY, total=1254, early=[0.03] * 10)) != []


def judged(values: np.ndarray) -> Finding:
    """Return the finding of a monitor that evaluates the losses in windows as they arrive."""
    monitor = Monitor([LossDiverging()], every=20, clock=lambda: 0.0)
    for step, value in enumerate(values):
        monitor.feed(
            StepRecord(
                key=StepKey(step=step, mode_step=step),
                wall_s=float(step),
                tensor_T=np.empty(0, np.uint32),
                summary_TF=np.empty((0, WIDTH)),
                scalars=(Scalar("loss", LOSS, float(value)),),
            )
        )
    monitor.finish()
    [finding] = monitor.findings
    return finding


RISEN = np.concatenate([FALLING[:200], 2.4 + noise(150, scale=0.1)])


def test_has_passed_when_the_loss_came_back() -> None:
    finding = judged(np.concatenate([RISEN, 2.3 * np.exp(-np.arange(300) / 40) + 0.1]))
    assert finding.severity is Severity.INFO
    assert "it had ended by step" in finding.message


@pytest.mark.parametrize("scale", [0.1, 0.8])
def test_has_not_passed_when_it_left_the_window(scale: float) -> None:
    finding = judged(np.concatenate([RISEN, np.abs(2.4 + noise(900, scale=scale))]))
    assert finding.severity is Severity.ERROR
    assert abs(finding.step - 200) <= 5


def test_has_not_passed_when_another_loss_is_low() -> None:
    both = loss(RISEN[:280]), loss(np.full(280, 0.1), of="other.py:1")
    assert check(*both) != []
    falling = np.concatenate([RISEN, np.linspace(2.4, 1.4, 50)])
    with pytest.raises(NotEnoughData, match="too early"):
        check(loss(falling), loss(np.full(400, 0.1), of="other.py:1"))


BOOTSTRAPPED = BootstrappedTargets(step=9, module="target", steps=10)
GAIN = LossCall(step=0, operation="policy_gain")


@pytest.mark.parametrize("fact", [BOOTSTRAPPED, GAIN])
def test_the_loss_of_a_model_that_learns_from_its_own_output_may_rise(fact) -> None:
    rising = np.concatenate([np.full(60, 0.2), np.linspace(0.2, 1.1, 240)])
    assert LossDiverging().check(window(loss(rising)))
    with contextlib.suppress(NotEnoughData):
        assert LossDiverging().check(window(loss(rising), fact)) == []
    [finding] = LossDiverging().check(window(loss(0.2 * 1.05 ** np.arange(300)), fact))
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("start", [3e-15, 1e-7])
def test_first_steps_that_lift_a_loss_from_about_0_are_no_divergence(start: float) -> None:
    lifted = np.concatenate([[start, start], 5e-3 * np.exp(-np.arange(N) / 40) + 1e-5])
    with contextlib.suppress(NotEnoughData):
        assert check(loss(lifted[:12])) == []
    assert check(loss(lifted)) == []
    [finding] = check(loss(np.concatenate([lifted, 1e-5 * 2.0 ** np.arange(25)])))
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(("values", "found"), [(True, 0), (False, 1)])
def test_the_values_of_a_critic_are_no_errors(values: bool, found: int) -> None:
    policy = PolicyLoss(step=3, looks=4, by_value=values, location=LOSS)
    rising = loss(1.3 ** np.arange(40))
    assert len(LossDiverging().check(window(rising, policy, BOOTSTRAPPED))) == found
