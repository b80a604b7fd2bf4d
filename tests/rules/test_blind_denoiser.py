from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.targets import NoisePrediction
from mothtrap.core.findings import Severity
from mothtrap.rules.blind_denoiser import blind_denoiser

PLACE = "ddpm.py:30"


def test_noise_that_the_input_does_not_contain_is_a_warning() -> None:
    seen = NoisePrediction(step=12, looks=5, values=100_000, correlation=0.002, location=PLACE)
    [finding] = blind_denoiser().check(window(seen, steps=20))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 0, PLACE)
    assert "over 100,000 values is 0.002 (limit 0.05)" in finding.message
    assert finding.fixes[0].startswith("Give the network the noisy data")


def test_one_timestep_is_a_warning() -> None:
    seen = NoisePrediction(step=12, looks=5, values=9_000, correlation=0.6, constant_condition=True)
    [finding] = blind_denoiser().check(window(seen, steps=20))
    assert "had the same value in all rows of 5 batches" in finding.message
    assert finding.fixes[0].startswith("Draw a timestep for each row")


@pytest.mark.parametrize(
    ("looks", "values", "correlation"),
    [(5, 100_000, 0.5), (5, 100_000, -0.3), (5, 100_000, None), (5, 3_000, 0.0), (4, 100_000, 0.0)],
)
def test_stays_quiet(looks: int, values: int, correlation: float | None) -> None:
    seen = NoisePrediction(step=12, looks=looks, values=values, correlation=correlation)
    assert blind_denoiser().check(window(seen, steps=20)) == []


def test_the_latest_report_of_a_line_counts() -> None:
    early = NoisePrediction(step=12, looks=5, values=9_000, correlation=0.0, location=PLACE)
    late = NoisePrediction(step=30, looks=7, values=12_000, correlation=0.2, location=PLACE)
    assert blind_denoiser().check(window(early, late, steps=40)) == []


def test_needs_a_step() -> None:
    with pytest.raises(NotEnoughData):
        blind_denoiser().check(window())
