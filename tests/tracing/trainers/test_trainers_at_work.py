"""Counters of trainers are read and restored by name, and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mothtrap.tracing.trainers import trainers_at_work
from mothtrap.tracing.trainers.trainers_at_work import (
    TrainerAtWork,
    computes_in_closure,
    counters,
    restore,
)


@pytest.fixture
def work() -> Iterator[TrainerAtWork]:
    made = TrainerAtWork(lambda one: iter([("trainer", one), ("state", one.state)]))
    yield made
    made.leave()
    assert made not in trainers_at_work.at_work


class Trainer(SimpleNamespace):
    """Weakly referenced, unlike its base."""


def trainer(step: int) -> Trainer:
    return Trainer(state=SimpleNamespace(step=step, epoch=0.5, log=["a"]), done=False)


def test_there_are_none_before_a_trainer_begins(work: TrainerAtWork) -> None:
    assert counters() is None
    one = trainer(3)
    work.began(one)
    assert counters() == {"trainer.done": False, "state.step": 3, "state.epoch": 0.5}
    del one
    assert counters() is None


def test_they_are_restored_and_nothing_else_is_written(work: TrainerAtWork) -> None:
    work.began(one := trainer(0))
    one.state.log, one.state.best = [], None
    restore({"state.step": 41, "state.log": 7, "state.unknown": 1, "state.best": 0.25})
    assert vars(one.state) == {"step": 41, "epoch": 0.5, "log": [], "best": 0.25}
    restore(None)
    assert one.state.step == 41


def test_what_json_cannot_hold_is_left_out(work: TrainerAtWork) -> None:
    work.began(one := trainer(1))
    one.state.epoch = math.inf
    assert "state.epoch" not in (counters() or {})


def test_a_closure_is_idle_only_while_a_trainer_says_so(work: TrainerAtWork) -> None:
    assert computes_in_closure()
    work.idle_closure = True
    assert not computes_in_closure()
