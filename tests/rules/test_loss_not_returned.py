from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.trainers import LossNotReturned, TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.loss_not_returned import loss_not_returned

TRAINER = TrainerSettings(step=0, trainer="Trainer of Lightning", model="Net")


def check(*facts: Fact) -> list[Finding]:
    return loss_not_returned().check(window(*facts))


def test_steps_without_a_loss_are_an_error() -> None:
    seen = LossNotReturned(step=0, model="Net", calls=20, location="net.py:12")
    [finding] = check(TRAINER, seen)
    assert (finding.severity, finding.location) == (Severity.ERROR, "net.py:12")
    assert "training_step of Net returned None in all of the first 20 calls" in finding.message
    assert finding.fixes[0].endswith("`return loss`.")


def test_quiet_where_a_loss_is_returned() -> None:
    assert check(TRAINER) == []


def test_applies_to_trainers() -> None:
    with pytest.raises(NotApplicable):
        check()
