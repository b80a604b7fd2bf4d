"""A minimal adapter gets its steps, numbers, facts and tensors recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from tests.capture.recording import Sink

from mothtrap.capture.containment import Containment
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.selection import Stream
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind, ToolError
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.looks import AdapterReports, Cannot, Looked
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.records import StepRecord
from mothtrap.core.reports import Reports
from mothtrap.core.schedule import EVERY_STEP
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.summary import COLUMN
from mothtrap.tracing.jobs.adapter_job import AdapterJob, traced
from mothtrap.tracing.jobs.process_job import ProcessJob

GRADIENTS = Stream(
    name="all",
    kinds=("gradient",),
    statistics=frozenset({"mean", "max"}),
    matches=lambda info: True,
    schedules=dict.fromkeys((Mode.TRAIN,), EVERY_STEP),
)


class Process:
    """A process whose frameworks are attached by name; keeps what was recorded."""

    def __init__(self, *streams: Stream, overhead: float = 0.0) -> None:
        self.said: list[str] = []
        self.sink = Sink()
        self.recorder: Recorder[np.ndarray] = Recorder(
            arithmetic,
            streams,
            Containment(self.said.append),
            overhead=overhead,
            on_first_step=lambda: self.recorder.sinks.append(self.sink),
        )
        self.job = ProcessJob(self.recorder)

    def join(self, name: str, refines: str | None = None, *, counts: bool = True) -> AdapterJob:
        return AdapterJob(self.job, name, refines=refines, counts_steps=counts)

    @property
    def records(self) -> list[StepRecord]:
        return self.sink.records

    def steps(self) -> list[tuple[int, tuple[str, ...]]]:
        """Return the numbers and optimizers of the train steps."""
        train = [record for record in self.records if record.key.mode is Mode.TRAIN]
        return [(record.key.step, record.optimizers) for record in train]

    def scalars(self, name: str) -> list[tuple[int, str, float]]:
        return [
            (record.key.step, scalar.of, scalar.value)
            for record in self.records
            for scalar in record.scalars
            if scalar.name == name
        ]

    def facts(self, kind: type[Fact]) -> list[Fact]:
        return [o for record in self.records for o in record.observations if isinstance(o, kind)]


def loss(value: float, series: str = "train-logloss") -> list[Losses]:
    return [Losses(series=series, value=value, location="train.py:3")]


def test_steps_are_counted_and_bear_their_losses() -> None:
    process = Process()
    job = process.join("trees")
    assert [job.step(loss(value)) for value in (0.5, 0.4)] == [range(1), range(1, 2)]
    assert process.steps() == [(0, ("trees",)), (1, ("trees",))]
    assert process.scalars("loss") == [(0, "train-logloss", 0.5), (1, "train-logloss", 0.4)]
    (series,) = process.facts(LossSeries)
    assert series == LossSeries(
        step=0, series="train-logloss", location="train.py:3", optimizers=("trees",)
    )


def test_one_call_can_stand_for_several_steps_or_for_a_skipped_one() -> None:
    process = Process()
    job = process.join("trees")
    assert job.step(loss(0.5), count=3) == range(3)
    assert job.step(skipped=True) == range(3, 4)
    assert process.scalars("loss") == [(2, "train-logloss", 0.5)]
    assert [record.skipped for record in process.records] == [False, False, False, True]


def test_numbers_and_facts_belong_to_the_step_in_progress() -> None:
    process = Process()
    job = process.join("trees")
    job.step()
    job.scalar("lr", "trees", 0.3)
    job.number("mine", 2)
    job.number("mine", "high")
    job.blind("the gradients", "trees have none")
    job.step()
    assert process.scalars("lr") == [(1, "trees", 0.3)]
    assert process.scalars("mine") == [(1, "", 2.0)]
    assert [blind.what for blind in process.facts(Blind)] == ["values of mine", "the gradients"]


def test_tensors_that_are_due_are_reduced() -> None:
    process = Process(GRADIENTS)
    job = process.join("trees")
    number = job.define(TensorInfo(kind="gradient", name="tree"))
    assert job.wants("gradient") == job.wants("gradient", ids=[number]) == {"mean", "max"}
    assert job.wants("weight") == frozenset()
    job.take("gradient", [number], [np.array([1.0, 3.0])])
    job.step()
    (row,) = process.records[0].summary_TF
    assert (row[COLUMN["mean"]], row[COLUMN["max"]]) == (2.0, 3.0)


def test_an_evaluation_tells_its_loss_and_the_direction_of_its_metrics() -> None:
    process = Process()
    job = process.join("trees")
    for number in range(3):
        job.step(loss(1.0 - 0.1 * number))
        job.evaluation(
            "eval",
            {"logloss": 0.9 - 0.2 * number, "auc": 0.5},
            loss="logloss",
            higher_is_better=frozenset({"auc", "map"}),
            rows=40,
        )
    assert process.scalars("auc") == [(1, "eval", 0.5), (2, "eval", 0.5), (3, "eval", 0.5)]
    (metrics,) = process.facts(EvaluationMetrics)
    assert isinstance(metrics, EvaluationMetrics)
    assert (metrics.site, metrics.loss) == ("eval", "logloss")
    assert (metrics.higher_is_better, metrics.lower_is_better) == (("auc",), ("logloss",))
    last = process.facts(Evaluation)[-1]
    assert isinstance(last, Evaluation)
    assert (last.number, last.rows, last.first, last.best_step) == (2, 40, 0.9, 3)
    assert last.train_losses == {"train-logloss": pytest.approx(0.8)}


def test_frameworks_take_turns_in_one_sequence_of_steps() -> None:
    process = Process()
    trees, nets = process.join("trees"), process.join("nets")
    made = [job.step() for job in (trees, nets, nets, trees)]
    assert [steps.start for steps in made] == [0, 1, 2, 3]
    assert [names for _, names in process.steps()] == [("trees",), ("nets",), ("nets",), ("trees",)]


def test_a_framework_that_refines_another_and_leaves_the_counting_to_it_makes_no_step() -> None:
    process = Process()
    base = process.join("nets")
    trainer = process.join("trainer", refines="nets", counts=False)
    trainer.scalar("epoch", "", 1.0)
    assert trainer.step(loss(0.5)) == range(0)
    base.step()
    assert process.steps() == [(0, ("nets",))]
    assert process.scalars("loss") == [(0, "train-logloss", 0.5)]
    assert process.scalars("epoch") == [(0, "", 1.0)]


def test_a_framework_that_counts_for_its_base_makes_one_step_of_what_both_do() -> None:
    from mothtrap.capture.grouper import BackwardBegan, BackwardEnded, StepBegan, StepEnded

    process = Process()
    base = process.join("nets")
    keras = process.join("keras", refines="nets")
    for _ in range(3):
        base.event(BackwardBegan("model.py:5"))
        base.event(BackwardEnded())
        # the optimizer of the base class, which applies its gradients
        base.event(StepBegan("Adam"))
        base.event(StepEnded("Adam"))
        keras.step(optimizer="keras.Adam")
    assert process.steps() == [(n, ("Adam", "keras.Adam")) for n in range(3)]


def test_the_first_steps_of_a_framework_are_watched_in_full_however_late_they_come() -> None:
    process = Process(overhead=0.02)
    trees, nets = process.join("trees"), process.join("nets")

    def make(job: AdapterJob, steps: int) -> None:
        for _ in range(steps):
            process.recorder.times.own_s += (
                1.0  # far above the budget: steps are light when they can be
            )
            job.step()

    make(trees, 200)
    make(trees, 5)  # not to one of the full pairs
    assert process.recorder.plan.is_light
    make(nets, 1)
    assert not process.recorder.plan.is_light
    make(nets, 8)
    assert not process.recorder.plan.is_light
    make(nets, 101)
    assert process.recorder.plan.is_light


def test_a_framework_that_is_imported_and_never_steps_keeps_no_step_full() -> None:
    process = Process(overhead=0.02)
    nets = process.join("nets")
    process.join("trees")
    for _ in range(205):
        process.recorder.times.own_s += 1.0
        nets.step()
    assert process.recorder.plan.is_light


def test_waiting_for_the_training_is_no_time_of_a_hook() -> None:
    process, seconds = Process(), iter(range(100))
    process.recorder.times.clock = lambda: float(next(seconds))
    job = process.join("nets")

    def hook() -> None:
        with process.recorder.times.waiting():
            for _ in range(40):
                next(seconds)

    job.contain(hook)
    assert process.recorder.times.own_s == 2.0  # two clock readings around the wait


class Observer:
    """Adds a number to each step that closes."""

    def __init__(self, job: AdapterJob) -> None:
        self.job, self.interruptions = job, 0
        job.observer = self

    def closing(self, closed: object) -> None:
        self.job.scalar("seen_by", self.job.framework, 1.0)

    def closed(self, closed: object) -> None:
        self.job.scalar("after", self.job.framework, 1.0)

    def interrupted(self) -> None:
        self.interruptions += 1


def test_a_step_is_observed_by_its_family_and_interrupts_the_others() -> None:
    process = Process()
    trees, nets, trainer = (
        process.join("trees"),
        process.join("nets"),
        process.join("trainer", refines="nets", counts=False),
    )
    observers = [Observer(job) for job in (trees, nets, trainer)]
    nets.step()
    trees.step()
    assert process.scalars("seen_by") == [(0, "nets", 1.0), (0, "trainer", 1.0), (1, "trees", 1.0)]
    assert [observer.interruptions for observer in observers] == [1, 1, 1]


def test_a_hook_that_fails_switches_its_own_adapter_off_only() -> None:
    process = Process()
    trees, nets = process.join("trees"), process.join("nets")

    def fail() -> None:
        raise RuntimeError("planted")

    assert trees.contain(fail) is None
    assert (trees.live, nets.live) == (False, True)
    assert trees.contain(trees.step) is None
    assert nets.contain(nets.step) == range(1)
    (error,) = process.facts(ToolError)
    assert error.error == "RuntimeError: planted"  # type: ignore[union-attr]
    assert len(process.said) == 1


def test_a_part_that_fails_is_called_no_more_and_the_rest_goes_on() -> None:
    process = Process()
    job = process.join("trees")
    calls: list[str] = []

    def fail(name: str) -> None:
        calls.append(name)
        raise RuntimeError("planted")

    for _ in range(2):
        job.contain(job.contain_part, "importance", fail, "x")
    assert (calls, job.live) == (["x"], True)


@pytest.mark.parametrize("own_steps", [None, 7])
def test_steps_go_on_where_a_restarted_job_was(own_steps: int | None) -> None:
    process = Process()
    asked: list[tuple[dict[str, str], int | None]] = []

    def resume(digests: Iterable[str], own: int | None) -> Resumed:
        asked.append((dict(digests), own))  # type: ignore[call-overload]
        return Resumed(step=7, evidence="its rounds", evaluations=0)

    process.job.resumption = resume  # type: ignore[assignment]
    job = process.join("trees")
    if own_steps is not None:
        assert job.resume({}, own_steps) is not None
    assert job.step() == range(7, 8)
    assert job.step() == range(8, 9)
    assert asked == [({}, own_steps)]


def test_a_run_knows_what_an_adapter_can_report_and_what_not_in_this_job() -> None:
    process = Process()
    facts = frozenset({Evaluation, LossSeries})
    job = AdapterJob(process.job, "trees", reports=Reports(facts=facts))
    quiet = process.join("quiet")
    ready = (LossSeries,)
    for made in (job, quiet, job):
        job.stood_ready(ready)
        made.step()
    job.cannot("no evals were passed", Reports(facts=frozenset({Evaluation})))
    job.step()
    (reports,) = process.facts(AdapterReports)
    assert isinstance(reports, AdapterReports)
    assert (reports.adapter, reports.facts) == ("trees", ("Evaluation", "LossSeries"))
    (cannot,) = process.facts(Cannot)
    assert isinstance(cannot, Cannot)
    assert (cannot.why, cannot.facts) == ("no evals were passed", ("Evaluation",))
    assert process.facts(Looked)


def test_only_a_job_of_this_package_can_be_used_beyond_the_protocol() -> None:
    job: Job = Process().join("trees")
    assert traced(job) is job
    with pytest.raises(TypeError, match="not a job of a session"):
        traced(object())  # type: ignore[arg-type]


def test_time_in_hooks_is_counted_once() -> None:
    seconds = iter(range(100))
    process = Process()
    process.recorder.times.clock = lambda: float(next(seconds))
    job = process.join("trees")
    nested: Callable[[], None] = lambda: job.contain(lambda: None)  # noqa: E731
    before = process.recorder.times.own_s
    job.contain(nested)
    assert process.recorder.times.own_s - before == 2.0  # three clock readings after the first
