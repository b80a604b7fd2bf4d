from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.samples_without_weight import samples_without_weight


def check(weights: int | None, samples: int | None = 3000) -> list[Finding]:
    began = LoaderBegan(
        step=0,
        loader="loader 1",
        sampler="with_replacement",
        samples=samples,
        weights=weights,
        location="train.py:9",
    )
    return samples_without_weight().check(window(began, steps=60))


@pytest.mark.parametrize(
    ("weights", "severity"), [(5, "error"), (1500, "error"), (2999, "warning")]
)
def test_fewer_weights_than_samples(weights: int, severity: str) -> None:
    [finding] = check(weights)
    assert (finding.severity, finding.location) == (Severity(severity), "train.py:9")
    assert f"has {weights:,} weights for 3,000 samples" in finding.message
    assert f"only draws samples 0 to {weights - 1:,}" in finding.message


def test_a_weight_for_each_sample_is_right() -> None:
    assert check(3000) == []


@pytest.mark.parametrize(("weights", "samples"), [(None, 3000), (5, None)])
def test_says_what_is_missing(weights: int | None, samples: int | None) -> None:
    with pytest.raises(NotApplicable, match="by weight"):
        check(weights, samples)
