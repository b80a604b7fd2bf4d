"""Rows of evaluations in custom loops are compared with those trained on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mothtrap.core.facts.data import RowsShared
from mothtrap.tracing.describe.loop_rows import LoopRows

TABLE = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)


class Job:
    """Keeps the facts that it is given."""

    def __init__(self) -> None:
        self.facts: list[Any] = []
        self.now = SimpleNamespace(step=0)

    def fact(self, fact: Any) -> None:
        self.facts.append(fact)


def shared(evaluated: np.ndarray, *, epochs: int = 3, apart: int = 1) -> list[RowsShared]:
    """Train on 200 rows, `epochs` times, and evaluate after every `apart` batches."""
    job = Job()
    rows: Any = LoopRows(job, "the model")  # type: ignore[arg-type]
    for _ in range(epochs):
        for first in range(0, 200, 20):
            rows.trained([TABLE[first : first + 20]])
            job.now.step += 1
            if job.now.step % apart == 0:
                rows.evaluated("evaluate", [evaluated], None)
                rows.ended()
    return job.facts


@pytest.mark.parametrize(("first", "count"), [(200, 0), (150, 50), (100, 100)])
def test_rows_that_were_trained_on_are_counted(first: int, count: int) -> None:
    facts = shared(TABLE[first : first + 100], apart=10)
    assert facts
    assert all((one.shared, one.eval_rows, one.train_rows) == (count, 100, 200) for one in facts)


def test_nothing_is_reported_before_the_training_data_are_known() -> None:
    assert not shared(TABLE[100:200], epochs=1, apart=10)


def test_calls_in_every_step_are_part_of_the_training() -> None:
    assert not shared(TABLE[100:200], apart=1)[1:]


def test_labels_and_single_rows_are_not_compared() -> None:
    job = Job()
    rows: Any = LoopRows(job, "the model")  # type: ignore[arg-type]
    for _ in range(40):
        rows.trained([np.arange(100), TABLE[:1]])
    job.now.step = 40
    rows.evaluated("evaluate", [np.arange(100), TABLE[:1]], None)
    rows.ended()
    assert not job.facts
