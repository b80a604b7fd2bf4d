from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Severity
from mothtrap.rules.training_cut_short import training_cut_short


def check(**more):
    told = {"step": 0, "trainer": "Trainer of Lightning", "model": "Net", "epochs": 20}
    return training_cut_short().check(window(loss(np.ones(40)), TrainerSettings(**(told | more))))


def test_a_setting_that_leaves_few_batches() -> None:
    [finding] = check(leaves_out="limit_train_batches=0.01", share=0.01, batches=5)
    assert finding.severity is Severity.WARNING
    assert "`limit_train_batches=0.01`, which uses 1.0 % of" in finding.message


def test_one_step_per_epoch() -> None:
    [finding] = check(accumulates=64, batches=45)
    assert finding.severity is Severity.WARNING
    assert "there is one step per epoch" in finding.message


@pytest.mark.parametrize(
    "more",
    [
        {"leaves_out": "limit_train_batches=0.5", "share": 0.5},
        {"leaves_out": "fast_dev_run=1", "share": 0.02, "epochs": 1},
        {"leaves_out": "limit_train_batches=100"},
    ],
)
def test_other_settings_are_notes(more) -> None:
    [finding] = check(**more)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "more", [{}, {"accumulates": 4, "batches": 45}, {"accumulates": 4, "batches": 2}]
)
def test_stays_quiet(more) -> None:
    assert check(**more) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable):
        training_cut_short().check(window(loss(np.ones(40))))
