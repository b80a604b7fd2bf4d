"""The methods of a job that adapters of larger frameworks use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mothtrap.capture.logged import Logged
from mothtrap.core.adapters import MadeStep
from mothtrap.core.facts.captures import Blind
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN
from mothtrap.testing.adapters import Process
from mothtrap.tracing.jobs.adapter_job import AdapterJob


def job_of(process: Process, name: str = "toy") -> AdapterJob:
    return AdapterJob(process.job, name, reports=Reports())


def test_outputs_of_a_forward_belong_to_the_step_in_progress() -> None:
    process = Process("numpy")
    job = job_of(process)
    number = job.define(TensorInfo(kind="activation", name="layer", shape=(2,), dtype="float64"))
    with job.forward():
        job.take("activation", [number], [np.array([3.0, 4.0])])
    job.add_row(number, {"inactive": 0.5})
    job.step()
    [record] = process.records
    assert record.tensor_T.tolist() == [number]
    row_F = record.summary_TF[0]
    assert (row_F[COLUMN["l2"]], row_F[COLUMN["inactive"]]) == (5.0, 0.5)


def test_a_light_step_is_not_full() -> None:
    process = Process("numpy", overhead=0.02)
    job = job_of(process)
    seen = []
    for _ in range(300):
        process.recorder.times.own_s += 1.0
        seen.append(job.is_full())
        job.step()
    assert seen[0]
    assert not seen[-1]
    assert job.is_full(10_000) is process.recorder.depths.is_full(10_000)


def test_values_can_come_later() -> None:
    process = Process("numpy")
    job = job_of(process)
    waiting: list[Callable[[Any], None]] = []

    def take(_: str, value: Any, give: Callable[[Any], None]) -> bool:
        if value == "later":
            waiting.append(give)
        return value == "later"

    end = job.defer(take)
    assert job.defer(take) is not None  # asked anyway
    logged = Logged(process.recorder, process.said.append)
    job.step()
    logged.number("mine", "later")
    waiting[0](2.5)
    job.step()
    end()
    end()
    assert [s.value for s in process.records[1].scalars if s.name == "mine"] == [2.5]
    assert not process.recorder.deferring


class Observer:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, tuple[str, ...]]] = []

    def closing(self, closed: MadeStep) -> None:
        self.seen.append(("closing", closed.step, closed.optimizers))

    def closed(self, closed: MadeStep) -> None:
        self.seen.append(("closed", closed.step, closed.optimizers))

    def interrupted(self) -> None:
        self.seen.append(("interrupted", -1, ()))


def test_an_observer_hears_of_each_step() -> None:
    process = Process("numpy")
    job, other = job_of(process), job_of(process, "other")
    observer = Observer()
    job.observe(observer)
    job.step(optimizer="sgd")
    other.step()
    assert observer.seen == [
        ("closing", 0, ("sgd",)),
        ("closed", 0, ("sgd",)),
        ("interrupted", -1, ()),
    ]


def test_a_mode_that_the_user_has_set_stays() -> None:
    process = Process("numpy")
    job = job_of(process)
    job.ask_mode(Mode.PREDICT)
    assert process.job.asked_mode is Mode.PREDICT
    job.ask_mode(None)
    assert process.job.asked_mode is None
    process.job.asked_mode = Mode.EVAL
    job.ask_mode(Mode.PREDICT)
    assert process.job.asked_mode is Mode.EVAL


def test_numbers_of_a_logger_and_the_line_of_a_loss_reach_the_process() -> None:
    process = Process("numpy")
    job = job_of(process)
    job.step()
    job.log({"lr": {"head": 0.5}, "text": "left out"})
    job.step()
    assert [s.value for s in process.records[1].scalars if s.name == "lr/head"] == [0.5]
    job.loss_computed_at("train.py:7")
    assert process.job.loss_place == "train.py:7"
    assert job.steps_applied == 2


def test_facts_and_reasons_are_kept_where_no_step_is_made() -> None:
    process = Process("numpy")
    job = job_of(process)
    job.never_stepped("`fit` was called without data")
    job.after_end(Blind(step=0, what="the end", reason="told at the end"))
    assert [fact.reason for fact in process.recorder.notes.unstepped] == [  # type: ignore[attr-defined]
        "`fit` was called without data",
        "told at the end",
    ]
    assert not process.records


def test_a_fact_after_the_end_is_recorded_behind_the_last_step() -> None:
    process = Process("numpy")
    job = job_of(process)
    job.step()
    fact = Blind(step=1, what="the end", reason="told at the end")
    job.after_end(fact)
    assert process.records[-1].observations == (fact,)
    assert process.records[-1].key.mode is Mode.PREDICT


def test_waiting_is_no_overhead_and_lines_reach_the_user() -> None:
    process = Process("numpy")
    job, seconds = job_of(process), iter(range(100))
    process.recorder.times.clock = lambda: float(next(seconds))
    with job.waiting():
        next(seconds)
    assert process.recorder.times.waited_s == 2.0
    job.say("mothtrap: a line")
    assert process.said == ["mothtrap: a line"]


def test_the_end_of_the_training_is_announced() -> None:
    process, announced = Process("numpy"), []
    job = job_of(process)
    process.recorder.before_guard_stops = lambda _: announced.append(True)
    job.ends_here()
    assert announced == [True]
    assert job.ended_by is None
    process.recorder.containment.left_by = ValueError("the script")
    assert job.ended_by is process.recorder.containment.left_by
