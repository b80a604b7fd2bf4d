from __future__ import annotations

import dataclasses

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.diagnosis import diagnose, problems, verdict
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.record import CheckpointSaved
from mothtrap.core.facts.workers import WeightsSaved
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.no_checkpoint import no_checkpoint


def trained(seconds: float, *facts: Fact, worker: int = 0) -> Window:
    seen = window(loss([1.0] * 900), *facts, worker=worker)
    return dataclasses.replace(seen, trained_s=seconds)


def test_an_hour_without_saved_weights_is_a_note_and_no_headline() -> None:
    [found] = no_checkpoint().check(trained(7200.0))
    assert (found.severity, found.step, found.location) == (Severity.INFO, 0, "train.py:10")
    assert found.message == "no weights were saved in 900 steps (120.0 minutes of training)"
    diagnosis = diagnose([found], {})
    assert problems(diagnosis) == ()
    assert verdict(diagnosis, steps=900) == "No error or warning in 900 steps, 1 note."


@pytest.mark.parametrize(
    "fact", [CheckpointSaved(step=700), WeightsSaved(step=3, root="Net", digest="0")]
)
def test_one_file_is_enough(fact: Fact) -> None:
    assert no_checkpoint().check(trained(7200.0, fact)) == []
    assert no_checkpoint().check(trained(1.0, fact)) == []


def test_short_trainings_and_other_workers_are_not_judged() -> None:
    with pytest.raises(NotEnoughData, match="needs 3,600 s"):
        no_checkpoint().check(trained(3599.0))
    with pytest.raises(NotApplicable, match="first rank"):
        no_checkpoint().check(trained(7200.0, worker=1))
