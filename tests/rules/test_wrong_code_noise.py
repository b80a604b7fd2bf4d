from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.loss_terms import CodeNoise
from mothtrap.core.findings import Severity
from mothtrap.rules.wrong_code_noise import wrong_code_noise


@pytest.mark.parametrize("factor", ["variance", "log variance"])
def test_a_wrong_factor_is_a_warning(factor: str) -> None:
    seen = CodeNoise(step=12, looks=5, factor=factor, location="vae.py:30")
    [finding] = wrong_code_noise().check(window(seen, steps=20))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 0, "vae.py:30")
    assert f"multiplied by its {factor}," in finding.message


def test_a_missing_divergence_is_a_warning() -> None:
    seen = CodeNoise(step=12, looks=5, factor="", location="vae.py:30")
    [finding] = wrong_code_noise().check(window(seen, steps=20))
    assert (finding.severity, finding.title) == (Severity.WARNING, "KL divergence is missing")
    assert "the variance only scales the noise" in finding.message
    assert finding.fixes[0].startswith("Add the KL divergence to the loss")


@pytest.mark.parametrize(
    ("clipped", "words"),
    [
        (("mean", "log variance"), "the mean and the log variance of the latent code are the"),
        (("log variance",), "the log variance of the latent code is the output of a ReLU"),
        (("mean",), "a code of the prior is negative half of the time"),
    ],
)
def test_a_clipped_code_is_a_warning(clipped: tuple[str, ...], words: str) -> None:
    seen = CodeNoise(step=12, looks=5, factor="", clipped=clipped, location="vae.py:30")
    [finding] = wrong_code_noise().check(window(seen, steps=20))
    assert (finding.severity, finding.title) == (Severity.WARNING, "clipped latent code")
    assert words in finding.message
    assert finding.fixes[0].startswith("Remove the ReLU")


def test_stays_quiet_without_it() -> None:
    assert wrong_code_noise().check(window(steps=20)) == []


def test_needs_a_step() -> None:
    with pytest.raises(NotEnoughData):
        wrong_code_noise().check(window())
