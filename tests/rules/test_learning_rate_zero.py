from __future__ import annotations

import numpy as np
import pytest
from tests.rules.weights import MADE, facts
from tests.rules.windows import LOSS, loss, noise, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.learning_rate_zero import LearningRateZero

FALLING = 2.3 * np.exp(-np.arange(500) / 100) + noise(500, scale=0.02)


def lr(values: np.ndarray | list[float], of: str = "Adam") -> Series:
    return series("lr", values, of=of)


def check(*parts: Series | LoaderBegan) -> list[Finding]:
    return LearningRateZero().check(window(*parts))


def test_fires_on_a_rate_that_is_0_from_the_start() -> None:
    [finding] = check(lr([0.0] * 60))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 0, 60)


def test_warns_before_it_is_sure() -> None:
    [finding] = check(lr([0.0] * 25))
    assert finding.severity is Severity.WARNING


def test_names_the_step_at_which_it_became_0() -> None:
    [finding] = check(lr([0.1] * 40 + [0.0] * 100), loss(FALLING[:140]))
    assert (finding.severity, finding.step) == (Severity.ERROR, 40)
    assert finding.location == LOSS


def test_fires_on_a_schedule_for_epochs_that_is_stepped_per_batch() -> None:
    [finding] = check(lr(0.05 * 0.9 ** np.arange(360)), loss(FALLING[:360]))
    assert finding.severity is Severity.ERROR
    assert finding.step == 44  # 0.9^44 is the first below 1/100
    assert "its schedule ends too early" in finding.message


def test_fires_on_a_step_schedule_that_is_stepped_per_batch() -> None:
    [finding] = check(lr(0.1 ** (np.arange(500) // 20 + 1.0)), loss(FALLING))
    assert finding.severity is Severity.ERROR
    assert finding.step == 60  # at 40 it is 1/100 of the first


@pytest.mark.parametrize("steps", [5, 20, 60])
def test_fires_on_a_cosine_that_goes_up_again(steps: int) -> None:
    cosine = 0.05 * (1 + np.cos(np.pi * np.arange(480) / steps))
    [finding] = check(lr(cosine), loss(FALLING[:480]))
    assert (finding.severity, finding.title) == (Severity.WARNING, "learning rate up and down")
    assert f"every {2 * steps} steps" in finding.message
    assert steps <= finding.step <= steps + 5


@pytest.mark.parametrize(
    "rate",
    [
        pytest.param(np.minimum(np.arange(400) / 300, 1.0), id="warm-up from 0"),
        pytest.param([0.0] * 5 + [0.1] * 100, id="a handful at 0"),
        pytest.param(np.linspace(0.1, 0.0, 300), id="linear decay to 0"),
        pytest.param(0.05 * (1 + np.cos(np.pi * np.arange(300) / 299)), id="cosine to 0"),
        pytest.param(0.05 * (1 + np.cos(np.pi * (np.arange(400) % 100) / 100)), id="restarts"),
        pytest.param(0.1 * np.abs(1 - np.arange(400) % 40 / 20), id="triangles"),
        pytest.param(0.1 * 0.95 ** (np.arange(500) // 45), id="decay per epoch"),
        pytest.param([1e-8] * 100, id="tiny but constant"),
        pytest.param(0.1 * 0.1 ** (np.arange(450) // 150), id="two reductions by 10"),
        pytest.param(0.1 * 0.1 ** (np.arange(400) // 100), id="a reduction in each quarter"),
    ],
)
def test_stays_quiet_on_usual_schedules(rate: np.ndarray | list[float]) -> None:
    assert check(lr(rate), loss(FALLING[: len(rate)])) == []


def test_warns_of_a_schedule_that_ended_halfway() -> None:
    rate = np.concatenate([np.geomspace(0.1, 5e-4, 100), np.full(150, 5e-4)])
    [finding] = check(lr(rate), loss(np.linspace(2.3, 2.2, 250)))
    assert finding.severity is Severity.WARNING


def test_warns_of_a_rate_that_decays_too_fast_for_the_loss() -> None:
    halved = 1e-3 * 0.5 ** (np.arange(336) // 28)
    stopped = np.concatenate([2.3 * np.exp(-np.arange(112) / 80), np.full(224, 0.58)])
    [finding] = check(lr(halved), loss(stopped + noise(336, scale=0.02)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 196)
    assert finding.fixes[0].startswith("Call `scheduler.step()` once per epoch")
    began = LoaderBegan(step=0, loader="loader 1", sampler="shuffled", batches=28)
    [finding] = check(lr(halved), loss(stopped + noise(336, scale=0.02)), began)
    assert [fix[:17] for fix in finding.fixes] == ["Decay more slowly"]
    settled = np.concatenate([np.linspace(2, 0.1, 40), np.full(296, 0.1)])
    assert check(lr(halved), loss(settled + 0.01 * np.cos(np.arange(336)))) == []
    thousandth = 1e-3 * 0.001 ** (np.arange(336) / 336)  # a third of the steps below 1/100
    assert check(lr(thousandth), loss(stopped + noise(336, scale=0.02))) == []


def test_the_line_is_that_of_the_optimizer_where_it_is_known() -> None:
    [finding] = LearningRateZero().check(window(lr([0.0] * 60), facts()))
    assert finding.location == MADE


def test_stays_quiet_on_reductions_after_the_loss_had_settled() -> None:
    settled = np.concatenate([np.linspace(2, 0.1, 30), np.full(470, 0.1)]) + noise(500, scale=0.01)
    rate = np.concatenate([np.full(100, 0.1), np.full(400, 1e-6)])
    assert check(lr(rate), loss(settled)) == []


def test_a_loss_that_stops_because_the_rate_vanishes_had_not_settled() -> None:
    rate = np.repeat(1e-3 * 0.1 ** np.arange(60.0), 8)  # every 8 steps instead of epochs
    stopped = np.concatenate([np.linspace(2, 1.5, 10), np.full(470, 1.5)])
    stopped = stopped + noise(480, scale=0.01)
    [finding] = check(lr(rate), loss(stopped))
    assert (finding.severity, finding.step) == (Severity.ERROR, 24)
    # Here the loss settled before the fall, or the fall was slow.
    kept = np.concatenate([np.full(60, 1e-3), rate])
    settled = np.concatenate([np.linspace(2, 0.1, 20), np.full(520, 0.1)])
    settled = settled + noise(540, scale=0.01)
    assert check(lr(kept), loss(settled)) == []
    slow = np.repeat(1e-3 * 0.1 ** np.arange(8.0), 60)
    long = np.concatenate([np.linspace(2, 0.1, 60), np.full(420, 0.1)])
    assert check(lr(slow), loss(long + noise(480, scale=0.01))) == []


def test_only_warns_when_another_optimizer_goes_on() -> None:
    [finding] = check(lr([0.0] * 100, of="G"), lr([0.1] * 100, of="D"))
    assert finding.severity is Severity.WARNING


def test_only_warns_when_training_goes_on_after_the_end_of_the_schedule() -> None:
    [finding] = check(lr([0.1] * 300 + [0.0] * 60))
    assert finding.severity is Severity.WARNING


def test_cannot_judge_a_few_steps() -> None:
    with pytest.raises(NotEnoughData):
        check(lr([0.1] * 5))
    with pytest.raises(NotEnoughData):
        LearningRateZero().check(window(steps=3))
