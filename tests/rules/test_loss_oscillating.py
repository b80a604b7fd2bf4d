from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, noise, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.loss_oscillating import LossOscillating

N = 160
SIGN = (-1.0) ** np.arange(N)


def check(values: np.ndarray) -> list[Finding]:
    return LossOscillating().check(window(loss(values)))


def test_fires_on_a_loss_that_begins_to_jump_up_and_down() -> None:
    calm = 2.0 - 0.01 * np.arange(60)
    [finding] = check(np.concatenate([calm, 1.0 + 0.3 * SIGN[:100]]))
    assert finding.severity is Severity.WARNING
    assert 57 <= finding.step <= 62
    assert finding.location == LOSS
    assert finding.evidence["value"] == pytest.approx(0.6, rel=0.3)


def test_swings_from_the_start_are_a_note() -> None:
    [finding] = check(1.0 + 0.2 * SIGN)
    assert (finding.severity, finding.step) == (Severity.INFO, 0)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(1.0 + noise(N, scale=0.3).clip(-0.9), id="noise of batches"),
        pytest.param(1.0 + 0.02 * SIGN, id="small swings"),
        pytest.param(np.exp(-np.arange(N) / 100) * (1 + 0.2 * SIGN), id="it falls beneath"),
        pytest.param(1.0 + 0.5 * np.sin(np.arange(N) / 8), id="slow waves"),
        pytest.param(np.zeros(N), id="0"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(values) == []


def test_noise_never_turns_so_often() -> None:
    assert not any(check(1.0 + 0.2 * noise(200, seed=seed).clip(-4, 4)) for seed in range(200))


def test_cannot_judge_few_or_negative_losses() -> None:
    with pytest.raises(NotEnoughData, match="60"):
        check(1.0 + 0.2 * SIGN[:40])
    with pytest.raises(NotApplicable, match="negative"):
        check(0.2 * SIGN)
