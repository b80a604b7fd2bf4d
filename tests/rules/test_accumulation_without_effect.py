from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.accumulation_without_effect import accumulation_without_effect


def check(accumulates: int, counts: list[int]) -> list[Finding]:
    settings = TrainerSettings(
        step=0, trainer="Accelerator", model="Net", accumulates=accumulates, location="train.py:4"
    )
    counted = series("micro_batches", np.array(counts, float), of="")
    return accumulation_without_effect().check(window(settings, counted))


def test_one_backward_pass_in_each_step_is_reported() -> None:
    [found] = check(4, [1] * 30)
    assert (found.severity, found.step, found.location) == (Severity.WARNING, 0, "train.py:4")
    assert "4 times too small" in found.message
    assert "accelerator.accumulate(model)" in found.fixes[0]


def test_quiet_if_any_step_accumulates() -> None:
    assert check(4, [4] * 20 + [1] * 4) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="accumulate"):
        check(1, [1] * 30)
    with pytest.raises(NotEnoughData, match="20 steps"):
        check(4, [1] * 10)
