from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.facts.evaluations import EvaluatedCopy
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.averaged_norms_initial import averaged_norms_initial


def copy(step: int = 40, *, norms: int = 2, digest: str = "a") -> EvaluatedCopy:
    return EvaluatedCopy(
        step=step, module="Net#1", digest=digest, initial_norms=norms, location="ema.py:30"
    )


def check(*seen: EvaluatedCopy) -> list[Finding]:
    return averaged_norms_initial().check(window(loss([1.0] * 99), *seen))


def test_averaged_weights_with_initial_norms_are_a_warning() -> None:
    [finding] = check(copy(20), copy(40, digest="b"), copy(60, digest="c"))
    assert (finding.severity, finding.step) == (Severity.WARNING, 40)
    assert finding.location == "ema.py:30"
    assert (
        "the running averages of all its batch norms (2) have their initial values"
        in finding.message
    )
    assert finding.fixes[0].startswith("Copy the buffers")


@pytest.mark.parametrize(
    "seen", [[copy(40)], [copy(20), copy(40)], [copy(20), copy(40, norms=0, digest="b")]]
)
def test_stays_quiet(seen: list[EvaluatedCopy]) -> None:
    assert check(*seen) == []
