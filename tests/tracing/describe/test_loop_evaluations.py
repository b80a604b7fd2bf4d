"""Losses between two steps are one evaluation of each line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mothtrap.core.steps import StepKey
from mothtrap.tracing.describe.loop_evaluations import EACH_STEP, GUESSED, LoopEvaluations
from mothtrap.tracing.describe.loss_numbers import Called


class Job:
    def __init__(self) -> None:
        self.now = StepKey(step=0)
        self.told: list[dict[str, Any]] = []

    def evaluation(self, name: str, values: dict[str, float], **more: Any) -> None:
        self.told.append({**more, "name": name, **values})


def labels(*target: int) -> Called:
    return Called(
        operation="cross_entropy",
        chain=(),
        classes=3,
        target=np.array(target),
        prediction=np.full((len(target), 3), 1 / 3),
    )


def test_the_mean_is_over_the_rows_of_a_line() -> None:
    job = Job()
    evaluations = LoopEvaluations(job)
    evaluations.add("/home/me/train.py:9", 1.0, 30, lambda: labels(0, 0, 1))
    evaluations.add("/home/me/train.py:9", 2.0, 10, lambda: labels(2))
    evaluations.add("/home/me/train.py:20", 5.0, 1)
    evaluations.report()
    evaluations.report()
    first, second = job.told
    assert (first["name"], first["loss"], first["rows"]) == ("evaluation train.py:9", 1.25, 40)
    assert (first["label_counts"], first["location"]) == ((2, 1, 1), "/home/me/train.py:9")
    assert first["guess"] == pytest.approx(1.5 * np.log(2))
    assert (second["loss"], second["guess"], second["label_counts"]) == (5.0, None, None)


def test_targets_are_looked_at_in_the_first_evaluations_and_the_guess_stays_known() -> None:
    job, looks = Job(), []
    evaluations = LoopEvaluations(job)
    for number in range(GUESSED + 2):
        evaluations.add("train.py:9", 1.0, 2, lambda n=number: looks.append(n) or labels(0, 1))
        evaluations.report()
    assert looks == list(range(GUESSED))
    assert [one["guess"] for one in job.told] == [pytest.approx(np.log(2))] * (GUESSED + 2)
    assert [bool(one["label_counts"]) for one in job.told] == [True] * GUESSED + [False] * 2


def test_an_evaluation_of_which_a_part_cannot_be_seen_has_no_guess() -> None:
    job = Job()
    evaluations = LoopEvaluations(job)
    evaluations.add("train.py:9", 1.0, 2, lambda: labels(0, 1))
    evaluations.add("train.py:9", 1.0, 2, lambda: None)
    evaluations.report()
    assert (job.told[0]["guess"], job.told[0]["label_counts"]) == (None, None)


def test_what_every_step_computes_is_no_evaluation_for_long() -> None:
    job = Job()
    evaluations = LoopEvaluations(job)
    for step in range(EACH_STEP):
        job.now = StepKey(step=step)
        assert evaluations.wants("train.py:9")
        evaluations.add("train.py:9", 1.0, 2)
        evaluations.add("train.py:20", 1.0, 2) if step % 4 == 0 else None
        evaluations.report()
    assert not evaluations.wants("train.py:9")
    assert evaluations.wants("train.py:20")
