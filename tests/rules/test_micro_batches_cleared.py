from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import MicroBatchesCleared
from mothtrap.core.findings import Severity
from mothtrap.rules.micro_batches_cleared import micro_batches_cleared

SEEN = MicroBatchesCleared(
    step=7, optimizer="AdamW", steps=8, micro_batches=4, location="train.py:9"
)


def test_micro_batches_that_are_cleared_are_a_warning() -> None:
    [finding] = micro_batches_cleared().check(window(SEEN, steps=20))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 0, "train.py:9")
    assert "AdamW applies only the last of 4 micro-batches" in finding.message
    assert finding.fixes[0].startswith("Call `zero_grad()` once per step")


def test_needs_steps_with_micro_batches() -> None:
    with pytest.raises(NotApplicable):
        micro_batches_cleared().check(window(steps=20))
    with pytest.raises(NotEnoughData):
        micro_batches_cleared().check(window(SEEN, steps=4))
    assert micro_batches_cleared(num_steps=10).check(window(SEEN, steps=20)) == []
