from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, loss_call_of, noise, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.policies import PolicyEntropy
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.gradient_spike import GradientSpike

N = 100
SPIKE = 60


def norms(height: float = 50.0, at: tuple[int, ...] = (SPIKE,), of: str = "Adam") -> Series:
    values = np.exp(noise(N, scale=0.2))
    values[list(at)] *= height
    return series("gradient_norm", values, of=of)


def losses(jump: float = 3.0, at: tuple[int, ...] = (SPIKE + 1,)) -> Series:
    values = np.linspace(1.0, 0.8, N) + 0.02 * noise(N, seed=1)
    values[list(at)] *= jump
    return loss(values)


def check(*parts: Series | Fact, skipped: tuple[int, ...] = ()) -> list[Finding]:
    return GradientSpike().check(window(*parts, skipped=skipped))


def test_a_spike_after_which_the_loss_jumps_is_a_warning() -> None:
    [finding] = check(norms(), losses())
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, SPIKE, 1)
    assert 20 < float(finding.evidence["ratio"]) < 120
    assert "the loss jumps" in finding.message


def test_alone_it_is_a_note() -> None:
    [finding] = check(norms(), losses(1.0))
    assert finding.severity is Severity.INFO


def test_several_spikes_are_one_finding() -> None:
    places = (40, SPIKE, 80)
    [finding] = check(norms(at=places), losses(at=(41, SPIKE + 1, 81)))
    assert (finding.step, finding.count, finding.last_step) == (40, 3, 80)


def test_a_spike_may_ebb_away() -> None:
    values = np.exp(noise(N, scale=0.2))
    values[SPIKE : SPIKE + 20] *= np.maximum(1.0, 300 * 0.7 ** np.arange(20.0))
    [finding] = check(series("gradient_norm", values), losses())
    assert (finding.severity, finding.step) == (Severity.WARNING, SPIKE)


def test_where_gradients_are_clipped_it_is_a_note() -> None:
    limit = series("clip_limit", np.ones(N), of="")
    [finding] = check(norms(of=""), losses(), limit)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "shown",
    [
        norms(1.0),
        norms(5.0),
        norms(at=(3,)),
        norms(at=tuple(range(60, 66))),
        norms(at=(N - 1,)),
        series("gradient_norm", np.exp(noise(N, scale=1.5))),
    ],
    ids=["none", "small", "early", "lasting", "not over yet", "noisy all the while"],
)
def test_stays_quiet(shown: Series) -> None:
    assert check(shown, losses()) == []


def test_a_skipped_step_is_no_spike() -> None:
    assert check(norms(), losses(), skipped=(SPIKE,)) == []


def test_needs_a_history() -> None:
    with pytest.raises(NotEnoughData, match=r"no optimizer has 22 steps"):
        check(series("gradient_norm", np.ones(10)))


def test_a_spike_of_a_batch_of_one_row_is_a_note() -> None:
    [finding] = check(norms(), losses(), loss_call_of(1))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "sign",
    [
        PolicyEntropy(step=20, share=0.9, first=0.95, choices=4, looks=20),
        LossCall(step=20, operation="policy_gain"),
        BootstrappedTargets(step=20, module="q", steps=10),
    ],
)
def test_a_spike_of_a_policy_is_a_note(sign: Fact) -> None:
    [finding] = check(norms(), losses(), sign)
    assert finding.severity is Severity.INFO
