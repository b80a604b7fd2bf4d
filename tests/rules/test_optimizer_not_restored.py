from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.optimizer_not_restored import optimizer_not_restored


def check(*facts: Fact) -> list[Finding]:
    return optimizer_not_restored().check(window(*facts))


def resumed(step: int) -> Resumed:
    return Resumed(step=step, evidence="its weights", loaded=True)


def test_a_new_optimizer_for_old_weights_is_a_note() -> None:
    [finding] = check(resumed(500), OptimizersNotRestored(step=500, optimizers=("AdamW",)))
    assert (finding.severity, finding.step) == (Severity.INFO, 500)
    assert finding.message.startswith(
        "the job loaded the weights of step 500, but not the averages that AdamW had"
    )
    assert "optimizer.load_state_dict" in finding.fixes[0]


def test_stays_quiet() -> None:
    assert check(resumed(500)) == []
    assert check(resumed(5), OptimizersNotRestored(step=5, optimizers=("AdamW",))) == []


def test_applies_to_restarted_jobs() -> None:
    with pytest.raises(NotApplicable, match="was not restarted"):
        check()
