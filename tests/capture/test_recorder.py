"""Single steps, from the events of an adapter to a record in the sinks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.capture.recording import Job, Sink

from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.selection import streams
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Blind, Dropped, Thinned, ToolError
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.needs import Need
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN

NORMS = Need(kinds=("gradient",), statistics=("l2", "nan", "inf"))
MEANS = Need(kinds=("weight",), statistics=("mean",))


@pytest.fixture
def job() -> Job:
    return Job(streams(Config(), [NORMS, MEANS]))


def scalars(record: StepRecord) -> dict[str, float]:
    return {scalar.name: scalar.value for scalar in record.scalars}


def test_a_step_has_its_numbers_and_facts(job: Job) -> None:
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[3.0, 4.0]])
    job.recorder.notes.scalar("loss", "main Adam", 0.25)
    job.recorder.notes.observe(Blind(step=0, what="a module", reason="compiled"))
    record = job.close(0)
    assert record.key == StepKey(step=0, mode=Mode.TRAIN, mode_step=0)
    assert record.optimizers == ("Adam",)
    assert record.defined == ((number, TensorInfo(kind="gradient", name="weight")),)
    assert record.tensor_T.tolist() == [number]
    assert record.summary_TF[0, COLUMN["l2"]] == 5.0
    assert record.observations == (Blind(step=0, what="a module", reason="compiled"),)
    assert scalars(record) == {
        "loss": 0.25,
        "skipped": 0.0,
        "micro_batches": 2.0,
        "step_s": pytest.approx(0.5),
        "own_s": pytest.approx(0.0),
    }


def test_nothing_of_a_step_is_left_for_the_next(job: Job) -> None:
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[1.0]])
    job.recorder.notes.scalar("loss", "main", 1.0)
    job.close(0)
    record = job.close(1, skipped=True)
    assert record.key.step == 1
    assert record.defined == record.observations == ()
    assert record.skipped
    assert len(record.tensor_T) == len(record.summary_TF) == 0
    assert scalars(record)["skipped"] == 1.0
    assert "loss" not in scalars(record)
    assert job.recorder.steps == 2


def test_rows_of_micro_batches_become_one(job: Job) -> None:
    first, second = job.gradient("a"), job.gradient("b")
    job.recorder.captures.reduce("gradient", [first, second], [[3.0], [1.0]])
    job.recorder.captures.reduce("gradient", [first], [[4.0, float("nan")]])
    record = job.close(0)
    assert record.tensor_T.tolist() == [first, second]
    row = record.summary_TF[0]
    assert (row[COLUMN["count"]], row[COLUMN["nan"]], row[COLUMN["l2"]]) == (3.0, 1.0, 5.0)
    assert record.summary_TF[1, COLUMN["l2"]] == 1.0


def test_a_row_that_the_adapter_worked_out_is_taken_as_it_is(job: Job) -> None:
    number = job.gradient()
    job.recorder.captures.add_row(number, {"update_ratio": 1e-3})
    row = job.close(0).summary_TF[0]
    assert row[COLUMN["update_ratio"]] == 1e-3
    assert np.isnan(np.delete(row, COLUMN["update_ratio"])).all()


def test_norms_are_reduced_the_cheap_way(job: Job) -> None:
    weight = job.recorder.tensors.define(TensorInfo(kind="weight", name="weight"))
    job.recorder.captures.reduce("gradient", [job.gradient()], [[1.0]])
    job.recorder.captures.reduce("weight", [weight], [[1.0]])
    assert job.arithmetic.calls == ["norms", "summarize"]


def test_what_no_one_needs_is_not_reduced(job: Job) -> None:
    bias = job.recorder.tensors.define(TensorInfo(kind="bias", name="bias"))
    assert job.recorder.due.is_due("gradient")
    assert not job.recorder.due.is_due("activation")
    job.recorder.captures.reduce("gradient", [], [])
    job.recorder.captures.reduce("bias", [bias], [[1.0]])
    assert job.arithmetic.calls == []
    assert job.close(0).defined == ()


def test_a_gradient_that_is_not_finite_is_told_once(job: Job) -> None:
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[1.0]])
    assert not job.recorder.captures.gradients.take().nonfinite
    job.recorder.captures.reduce("gradient", [number], [[float("inf")]])
    assert job.recorder.captures.gradients.take().nonfinite
    assert not job.recorder.captures.gradients.take().nonfinite


@pytest.mark.parametrize(
    ("loss", "urgent"), [(1.0, False), (float("nan"), True), (float("-inf"), True)]
)
def test_a_loss_that_is_not_finite_is_urgent(job: Job, loss: float, urgent: bool) -> None:
    job.recorder.notes.scalar("loss", "main", loss)
    job.recorder.notes.scalar("user's own", "", float("nan"))
    job.close(0)
    assert job.sink.urgent == [urgent]


def test_the_first_step_opens_the_sinks_once(job: Job) -> None:
    job.recorder.evaluation(StepKey(step=0, mode=Mode.EVAL), [Scalar("loss", "main", 1.0)])
    assert job.opened == 0
    job.close(0)
    job.close(1)
    assert job.opened == 1
    assert [record.key.step for record in job.sink.records] == [0, 1]


def test_what_the_opening_observes_is_in_the_first_record() -> None:
    fact = Blind(step=0, what="worker", reason="opened")
    job = Job([], open_first=lambda job: job.recorder.notes.observe(fact))
    assert job.close(0).observations == (fact,)


def test_an_evaluation_is_a_record_of_its_own() -> None:
    job = Job(streams(Config(capture="everything"), []))
    number = job.recorder.tensors.define(TensorInfo(kind="activation", name="head"))
    assert number is not None
    job.close(0)
    key = StepKey(step=1, mode=Mode.EVAL, mode_step=4)
    job.recorder.notes.scalar("lr", "Adam", 0.1)
    job.recorder.captures.reduce("activation", [number], [[3.0, 4.0]])
    job.recorder.captures.commit_forward(key)
    job.recorder.evaluation(key, [Scalar("loss", "main", 2.0)])
    rows, numbers = job.sink.records[1:]
    assert rows.key == numbers.key == key
    assert rows.summary_TF[0, COLUMN["l2"]] == 5.0
    assert rows.optimizers == ()
    assert scalars(numbers) == {"loss": 2.0}
    record = job.close(1)
    assert len(record.tensor_T) == 0
    assert scalars(record)["lr"] == 0.1


def test_outputs_of_a_training_forward_belong_to_the_step() -> None:
    job = Job(streams(Config(capture="everything"), []))
    number = job.recorder.tensors.define(TensorInfo(kind="activation", name="head"))
    assert number is not None
    job.recorder.captures.reduce("activation", [number], [[3.0]])
    job.recorder.captures.commit_forward(StepKey(step=0))
    assert job.close(0).tensor_T.tolist() == [number]


def test_blindness_is_said_once(job: Job) -> None:
    job.recorder.notes.blind(0, "a module", "compiled")
    job.recorder.notes.blind(1, "a module", "compiled")
    job.recorder.notes.blind(1, "another", "compiled")
    assert len(job.close(0).observations) == 2


def test_own_time_is_counted_without_the_opening() -> None:
    def open_slowly(job: Job) -> None:
        job.clock.now_s += 3.0

    job = Job([], open_first=open_slowly)

    def close(step: int) -> StepRecord:
        """Close a step as adapters do: timed, with the time added to mothtrap's own."""
        began_s = job.clock.now_s
        record = job.close(step, after_s=0.0)
        job.recorder.times.own_s += job.clock.now_s - began_s
        return record

    close(0)
    assert job.recorder.times.own_s == pytest.approx(0.0)
    for step in (1, 2):
        job.clock.now_s += 1.0
        job.recorder.times.own_s += 0.25
        record = close(step)
        assert scalars(record)["own_s"] == pytest.approx(0.25)
        assert scalars(record)["step_s"] == pytest.approx(1.0)
    assert job.recorder.times.own_s == pytest.approx(0.5)
    assert job.recorder.times.wall_s == pytest.approx(2.0)


def test_a_stream_that_costs_too_much_is_thinned_and_norms_are_not() -> None:
    job = Job(streams(Config(), [NORMS, MEANS]), overhead=0.02)
    gradient = job.gradient()
    weight = job.recorder.tensors.define(TensorInfo(kind="weight", name="weight"))
    due = 0
    for step in range(200):
        assert job.recorder.due.is_due("gradient")
        job.arithmetic.cost_s = 0.01
        job.recorder.captures.reduce("gradient", [gradient], [[1.0]])
        if job.recorder.due.is_due("weight"):
            due += 1
            job.recorder.captures.reduce("weight", [weight], [[1.0]])
        job.close(step, after_s=0.1)
    assert 30 <= due <= 60  # a fifth of 200: each costs 0.01 s, each step earns 0.002 s
    thinned = [o for r in job.sink.records for o in r.observations if isinstance(o, Thinned)]
    assert {fact.what for fact in thinned} == {"mean of weights"}


def test_the_end_is_the_last_record(job: Job) -> None:
    job.close(0)
    ending = WorkerEnded(step=1, steps=1, own_s=0.0, wall_s=1.0)
    job.recorder.notes.observe(Blind(step=1, what="late", reason="seen after the step"))
    job.recorder.finish(ending)
    last = job.sink.records[-1]
    assert last.key == StepKey(step=1, mode=Mode.PREDICT)
    assert last.observations[-1] == ending
    assert len(last.observations) == 2


def test_what_is_logged_after_the_last_step_comes_with_the_end(job: Job) -> None:
    job.close(0)
    job.recorder.notes.scalar("loss", "main", 1.0)  # of a backward that no step followed
    job.recorder.notes.scalar("accuracy", "", 0.5)
    ending = WorkerEnded(step=1, steps=1, own_s=0.0, wall_s=1.0)
    job.recorder.finish(ending)
    last = job.sink.records[-1]
    assert last.key == StepKey(step=1, mode_step=1)
    assert last.scalars == (Scalar("accuracy", "", 0.5),)
    assert (last.optimizers, last.observations) == ((), (ending,))


def test_a_process_that_never_stepped_says_nothing(job: Job) -> None:
    job.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))
    assert job.opened == 0
    assert job.sink.records == []


def test_a_process_that_left_opens_nothing(job: Job) -> None:
    job.recorder.leave()
    job.recorder.close_step(
        ClosedStep(
            step=0,
            owners="Adam",
            optimizers=("Adam",),
            skipped=False,
            series=(),
            micro_batches=1,
        )
    )
    assert job.opened == 0


def test_a_sink_that_fails_is_left_out_and_the_others_are_told() -> None:
    broken, again = Sink(RuntimeError("no lock")), Sink(RuntimeError("no lock"))
    job = Job([], open_first=lambda job: job.recorder.sinks.extend([broken, again]))
    job.close(0)
    record = job.close(1)
    assert broken.calls == again.calls == 1
    (failure,) = record.observations
    assert isinstance(failure, ToolError)
    assert (failure.part, failure.error) == ("queue", "RuntimeError: no lock")
    assert [item.key.step for item in job.sink.records] == [0, 1]
    assert len(job.said) == 1


def test_outputs_that_no_step_takes_are_given_up_and_told() -> None:
    job = Job(streams(Config(capture="everything"), []))
    number = job.recorder.tensors.define(TensorInfo(kind="activation", name="head"))
    assert number is not None
    job.close(0)
    for _ in range(300):
        job.recorder.captures.begin_forward()
        if job.recorder.due.statistics(number):
            job.recorder.captures.reduce("activation", [number], [[1.0]])
        job.recorder.captures.commit_forward(StepKey(step=1))
    assert len(job.arithmetic.calls) == 256
    assert not job.recorder.due.is_due("activation")
    assert job.recorder.due.is_due("gradient")
    assert job.recorder.due.statistics(number, Mode.EVAL)
    record = job.close(1)
    assert record.summary_TF[0, COLUMN["count"]] == 256
    (told,) = record.observations
    assert isinstance(told, Dropped)
    assert (told.what, told.count) == ("forwards", 44)
    assert job.recorder.due.is_due("activation")


def test_time_after_the_last_step_counts_as_own_time_does() -> None:
    job = Job([])
    job.close(0)
    job.close(1, after_s=2)
    job.clock.now_s += 50.0
    job.recorder.times.own_s += 3.0
    assert job.recorder.times.wall_s == pytest.approx(52.0)


def test_facts_after_the_last_step_are_handed_on_once_before_the_end(job: Job) -> None:
    job.recorder.notes.observe(Blind(step=0, what="before", reason="no step yet"))
    job.recorder.emit_facts()
    assert job.sink.records == []
    job.close(0)
    late = Blind(step=1, what="after", reason="an evaluation at the end")
    job.recorder.notes.observe(late)
    job.recorder.emit_facts()
    job.recorder.emit_facts()
    ending = WorkerEnded(step=1, steps=1, own_s=0.0, wall_s=0.0)
    job.recorder.finish(ending)
    handed, last = job.sink.records[1:]
    assert handed.key == StepKey(step=1, mode=Mode.PREDICT)
    assert (handed.observations, last.observations) == ((late,), (ending,))
