"""Captures due at a step: schedules, findings, budgets, the governor and requests."""

from __future__ import annotations

import numpy as np
import pytest
from tests.capture.recording import Job

from mothtrap.capture.budgets import Budgets
from mothtrap.capture.plan import Plan, in_force
from mothtrap.capture.selection import MAX_ANSWERS, Selection, Stream, of_collection, streams
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.facts.captures import Blind, CaptureChanged, Dropped, Thinned
from mothtrap.core.facts.modules import ShapeChanged
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.needs import Need
from mothtrap.core.records import StepRecord
from mothtrap.core.schedule import FAR, Schedule
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

GRADIENT = TensorInfo(kind="gradient", name="head.weight")
WEIGHT = TensorInfo(kind="weight", name="head.weight")


def made(name: str = "gradients", **fields: object) -> tuple[Stream, ...]:
    return of_collection(name, Collection(**fields))  # type: ignore[arg-type]


def due_steps(plan: Plan, steps: range, kind: str = "gradient") -> list[int]:
    found = []
    for step in steps:
        plan.begin(step)
        found += [step] * plan.due.is_due(kind, Mode.TRAIN)
    return found


def request(**fields: object) -> CaptureRequest:
    return CaptureRequest(id="1", attempt=1, **fields)  # type: ignore[arg-type]


def train(job: Job, numbers: list[int], steps: range) -> list[StepRecord]:
    """Pass the gradients `[step]` at each step that needs them."""
    records = []
    for step in steps:
        if job.recorder.due.is_due("gradient"):
            job.recorder.captures.reduce("gradient", numbers, [[float(step)]] * len(numbers))
        records.append(job.close(step))
    return records


def kept(record: StepRecord) -> list[list[float]]:
    """Return the values of the tensors that a record keeps whole."""
    return [
        block.bytes_N[start:end].view(np.float64).tolist()
        for block in record.raw
        for start, end in zip(block.offset_R[:-1], block.offset_R[1:], strict=True)
    ]


def test_a_collection_is_due_by_its_schedule_and_no_earlier() -> None:
    plan = Plan(made(every=10, start=5, raw=True), 0.0)
    assert due_steps(plan, range(40)) == [5, 15, 25, 35]


def test_evaluations_have_steps_of_their_own() -> None:
    plan = Plan(made("activations", modes=(), eval=Schedule(every=2)), 0.0)
    plan.begin(7)
    found = []
    for forward in range(6):
        plan.begin_forward()
        found.append(plan.due.is_due("activation", Mode.EVAL))
        assert not plan.due.is_due("activation", Mode.TRAIN)
        plan.end_forward(StepKey(step=7, mode=Mode.EVAL, mode_step=forward))
    assert found == [True, False] * 3


def test_a_finding_opens_what_waits_for_it_for_some_steps() -> None:
    plan = Plan(made(on=("GRD",), for_steps=3, raw=True), 0.02)
    assert due_steps(plan, range(5)) == []
    plan.call("STR701")
    assert due_steps(plan, range(5, 10)) == []
    plan.call("GRD101")
    assert due_steps(plan, range(10, 20)) == [10, 11, 12]
    plan.call("GRD105")
    assert due_steps(plan, range(20, 21)) == [20]


def test_any_finding_opens_what_waits_for_findings() -> None:
    plan = Plan(made(on=("finding",), for_steps=2), 0.0)
    plan.call("STR701")
    assert due_steps(plan, range(5, 10)) == [5, 6]


def test_what_is_asked_of_a_tensor_is_the_union_of_what_is_due() -> None:
    both = (*made(raw=True, every=2), *made("mine", tensors=("gradients",), statistics=("l2",)))
    plan = Plan(both, 0.0)
    plan.selection.define(0, GRADIENT)
    plan.begin(0)
    assert plan.due.statistics(0, Mode.TRAIN) == {"raw", "l2"}
    plan.begin(1)
    assert plan.due.statistics(0, Mode.TRAIN) == {"l2"}
    assert plan.due.statistics(0, Mode.EVAL) == frozenset()


def test_steps_of_which_a_collection_wants_something_are_not_rested_through() -> None:
    plan = Plan(made(every=10, raw=True), 0.02)
    assert [plan.next_named(step) for step in (0, 1, 11)] == [0, 10, 20]
    assert Plan(made(raw=True, on=("NUM",)), 0.02).next_named(5) == FAR


def test_a_budget_is_never_exceeded_and_its_end_is_told_once() -> None:
    job = Job(made(raw=True, budget_mb=40 / 2**20))  # five numbers of eight bytes
    records = train(job, [job.gradient("a"), job.gradient("b")], range(4))
    assert [len(kept(record)) for record in records] == [2, 2, 1, 0]
    dropped = [o for record in records for o in record.observations if isinstance(o, Dropped)]
    assert [(fact.step, fact.what) for fact in dropped] == [(2, "copies of collection gradients")]
    assert "its budget of" in dropped[0].reason


def test_a_budget_of_one_does_not_bind_another() -> None:
    found = (*made(raw=True, budget_mb=1e-9), *made("mine", tensors=("gradients",), raw=True))
    records = train(job := Job(found), [job.gradient()], range(3))
    assert [len(kept(record)) for record in records] == [1, 1, 1]


def test_copies_are_thinned_before_statistics_and_that_is_told() -> None:
    job = Job(made(raw=True, statistics=("mean",), overhead=0.01), overhead=0.5)
    number = job.gradient()
    copy = job.arithmetic.copy_bytes

    def expensive(tensor: list[float], out_N: np.ndarray) -> None:
        job.clock.now_s += 0.2
        copy(tensor, out_N)

    job.arithmetic.copy_bytes = expensive  # type: ignore[method-assign]
    records = train(job, [number], range(200))
    copies = sum(len(kept(record)) for record in records)
    assert sum(len(record.tensor_T) for record in records) == 200
    assert 2 <= copies < 20
    job.recorder.finish(WorkerEnded(step=200, steps=200, own_s=0.0, wall_s=1.0))
    told = [o for r in job.sink.records for o in r.observations if isinstance(o, Thinned)]
    assert {fact.what for fact in told} == {"copies of collection gradients"}
    assert {fact.kinds for fact in told} == {("gradient",)}
    assert sum(fact.due for fact in told) == 200
    assert sum(fact.count for fact in told) == 200 - copies
    assert len(told) <= 4  # at the first, and then within about a hundred steps
    assert not [o for r in job.sink.records for o in r.observations if isinstance(o, Dropped)]


def test_only_shapes_are_followed_where_only_shapes_are_asked_for() -> None:
    job = Job(made(shape_only=True))
    number = job.recorder.tensors.define(TensorInfo(kind="gradient", name="w", shape=(2,)))
    records = []
    for step, values in enumerate(([1.0, 2.0], [1.0, 2.0], [1.0], [1.0])):
        job.recorder.captures.reduce("gradient", [number], [values])
        records.append(job.close(step))
    changes = [o for record in records for o in record.observations if isinstance(o, ShapeChanged)]
    assert changes == [
        ShapeChanged(step=0, tensor="gradient:w", shape=(2,)),
        ShapeChanged(step=2, tensor="gradient:w", shape=(1,)),
    ]
    assert all(record.tensor_T.tolist() == [number] for record in records)
    assert not any(record.raw for record in records)


def test_a_request_counts_from_the_next_step_for_as_long_as_was_asked() -> None:
    job = Job(())
    number = job.gradient()
    assert [record.defined for record in train(job, [number], range(3))] == [()] * 3
    job.recorder.changes.ask(
        request(add={"mine": Collection(tensors=("gradients",), raw=True, every=2)}, for_steps=5)
    )
    records = train(job, [number], range(3, 12))
    assert [kept(record) for record in records] == [
        *([], [[4.0]], [], [[6.0]], [], [[8.0]], [], [], []),
    ]
    (answer,) = [o for o in records[0].observations if isinstance(o, CaptureChanged)]
    assert (answer.from_step, answer.collections, answer.error) == (4, ("mine",), "")
    assert records[0].defined == ((number, TensorInfo(kind="gradient", name="weight")),)


def test_what_is_removed_is_captured_no_more() -> None:
    job = Job(made(raw=True))
    number = job.gradient()
    train(job, [number], range(2))
    job.recorder.changes.ask(request(remove=("gradients",)))
    records = train(job, [number], range(2, 5))
    assert [len(kept(record)) for record in records] == [1, 0, 0]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (request(remove=("gradient",)), "no collection 'gradient' is active (did you mean"),
        (request(add={"a": Collection()}), "collection 'a': tensors is missing"),
        (request(add={"weights": Collection()}, for_steps=0), "for_steps must be 1 step or more"),
    ],
)
def test_a_request_that_makes_no_sense_changes_nothing(asked: CaptureRequest, error: str) -> None:
    job = Job(made(raw=True))
    job.recorder.changes.ask(asked)
    records = train(job, [job.gradient()], range(3))
    (answer,) = [o for o in records[0].observations if isinstance(o, CaptureChanged)]
    assert error in answer.error
    assert answer.collections == ("gradients",)
    assert [len(kept(record)) for record in records] == [1, 1, 1]


def test_what_is_no_request_is_answered_too() -> None:
    job = Job(made(raw=True))
    job.recorder.changes.refuse("x", "it is no request")
    answers = [o for o in job.close(0).observations if isinstance(o, CaptureChanged)]
    assert [(answer.request, answer.error) for answer in answers] == [("x", "it is no request")]


def test_a_request_that_comes_too_late_is_answered() -> None:
    job = Job(made(raw=True))
    job.close(0)
    job.recorder.changes.ask(request(remove=("gradients",)))
    job.recorder.finish(WorkerEnded(step=1, steps=1, own_s=0.0, wall_s=1.0))
    answers = [o for o in job.sink.records[-1].observations if isinstance(o, CaptureChanged)]
    assert [answer.error for answer in answers] == ["the job has ended"]


def test_a_change_leaves_the_needs_of_rules_alone() -> None:
    need = Need(kinds=("gradient",), statistics=("l2",))
    plan = Plan(streams(Config(collections={"gradients": Collection(raw=True)}), [need]), 0.0)
    plan.selection.define(0, GRADIENT)
    plan.selection.define(1, WEIGHT)
    plan.change(request(remove=("gradients",)), 1)
    plan.begin(1)
    assert plan.due.statistics(0, Mode.TRAIN) == {"l2"}
    assert plan.change(request(add={"weights": Collection()}), 2) == [0, 1]
    assert in_force(plan.streams) == ("weights",)


class Counted:
    """A schedule of one step in 40 that counts how often it is queried."""

    def __init__(self) -> None:
        self.asked = 0

    def next_due(self, step: int) -> range:
        self.asked += 1
        return Schedule(every=40, start=20).next_due(step)


def test_what_is_not_due_is_not_asked_for_until_its_step_has_come() -> None:
    counted = Counted()
    matched: list[TensorInfo] = []
    stream = Stream(
        name="rare",
        kinds=("gradient",),
        statistics=frozenset({"raw"}),
        matches=lambda info: bool(matched.append(info)) or True,
        schedules={Mode.TRAIN: counted},  # type: ignore[dict-item]
    )
    job = Job([stream])
    number = job.gradient()
    train(job, [number], range(19))
    assert counted.asked == 1
    assert job.arithmetic.calls == []
    records = train(job, [number], range(19, 99))
    assert [record.key.step for record in records if record.raw] == [20, 60]
    assert counted.asked == 3  # again when each of these came
    assert len(matched) == 1


def test_a_collection_that_never_found_a_tensor_is_told_once_at_the_end() -> None:
    lost = made("lost", tensors=("gradient:heaad.*",), statistics=("l2",), raw=True)
    waiting = made("waiting", tensors=("gradient:nope",), statistics=("l2",), on=("NUM",))
    plan = Plan((*lost, *made(statistics=("l2",)), *waiting), overhead=0.0)
    plan.selection.define(0, GRADIENT)
    plan.begin(0)
    assert plan.take_reports() == []
    [unfound] = plan.take_reports(last=True)
    assert isinstance(unfound, Blind)
    assert unfound.what == "collection lost"


def captured(plan: Plan, mode: Mode, mode_steps: range) -> list[int]:
    """Return the steps of an evaluation at which something is due."""
    found = []
    for forward in mode_steps:
        plan.begin_forward()
        found += [forward] * plan.due.is_due("activation", mode)
        plan.end_forward(StepKey(step=plan.step, mode=mode, mode_step=forward))
    return found


def test_what_is_asked_of_evaluations_counts_from_the_next_of_them() -> None:
    """Counted from the train step, the first 4,800 forwards would be omitted after 5,000 steps."""
    plan = Plan((), 0.0)
    plan.begin(100)
    assert captured(plan, Mode.EVAL, range(7)) == []
    hidden = Collection(tensors=("activations",), modes=("eval", "train"), every=2)
    plan.change(request(add={"hidden": hidden}), 101)
    plan.begin(101)
    assert captured(plan, Mode.EVAL, range(7, 12)) == [7, 9, 11]
    assert due_steps(plan, range(101, 105), "activation") == [101, 103]


def test_what_is_asked_for_some_steps_counts_those_of_its_mode_and_is_then_out_of_force() -> None:
    plan = Plan((), 0.0)
    plan.begin(100)
    assert captured(plan, Mode.EVAL, range(7)) == []
    hidden = Collection(tensors=("activations",), modes=("eval",))
    asked = Collection(tensors=("gradients",), every=2)
    plan.change(request(add={"hidden": hidden, "asked": asked}, for_steps=4), 101)
    assert due_steps(plan, range(101, 140)) == [101, 103]
    assert in_force(plan.streams) == ("hidden",)  # no evaluation has come yet
    assert captured(plan, Mode.EVAL, range(7, 20)) == [7, 8, 9, 10]
    plan.begin(140)
    assert plan.streams == ()
    ended = [o for o in plan.take_reports() if isinstance(o, CaptureChanged)]
    assert [(o.request, o.from_step, o.collections) for o in ended] == [
        ("", 105, ("hidden",)),
        ("", 140, ()),
    ]


@pytest.mark.parametrize(
    ("fields", "for_steps", "due"),
    [
        ({"every": 3}, 7, [100, 103, 106]),
        ({"start": 2, "stop": 5}, None, [102, 103, 104]),
        ({"steps": (1, 3, 9)}, None, [101, 103, 109]),
        ({"steps": (1, 3, 9)}, 4, [101, 103]),
        ({"steps": (8, 9)}, 4, []),
        ({"logarithmic": True}, None, [*range(100, 111), 120, 130]),
    ],
)
def test_schedules_of_a_request_count_from_its_first_step(
    fields: dict[str, object], for_steps: int | None, due: list[int]
) -> None:
    plan = Plan((), 0.0)
    collection = Collection(tensors=("gradients",), **fields)  # type: ignore[arg-type]
    plan.change(request(add={"mine": collection}, for_steps=for_steps), 100)
    assert due_steps(plan, range(100, 135)) == due


def test_a_cost_is_booked_in_equal_parts_on_those_who_asked_in_that_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams of another mode, and the non-finite checks, pay nothing."""
    means = Need(kinds=("gradient",), statistics=("mean",))
    norms = Need(kinds=("gradient",), statistics=("l2", "nan", "inf"))
    spreads = Need(kinds=("gradient",), statistics=("std",))
    evaluated = Need(kinds=("gradient",), statistics=("max",), modes=(Mode.EVAL,))
    plan = Plan(streams(Config(), [means, norms, spreads, evaluated]), 0.02)
    booked: dict[str, float] = {}
    monkeypatch.setattr(Budgets, "charge", lambda _, stream, s: booked.update({stream.name: s}))
    plan.begin(0)
    plan.due.charge("gradient", 0.4, Mode.TRAIN)
    plan.due.charge("gradient", 0.1, Mode.EVAL)
    assert booked == pytest.approx(
        {"mean of gradients": 0.2, "std of gradients": 0.2, "max of gradients in eval": 0.1}
    )


def test_each_forward_of_an_evaluation_is_decided_about_and_paid_by_its_own_time() -> None:
    """One decision for a thousand forwards would create a debt of a thousand captures."""
    hidden = Need(kinds=("activation",), statistics=("l2",), modes=(Mode.EVAL,))
    plan = Plan(streams(Config(), [hidden]), 0.02)
    plan.begin(10)
    made, taken_s = 0, 0.0
    for forward in range(1000):
        if plan.evaluated:
            plan.budgets.earn(0.01 + taken_s, taken_s)
        plan.begin_forward()
        taken_s = 0.0
        if plan.due.is_due("activation", Mode.EVAL):
            made += 1
            taken_s = 0.001
            plan.due.charge("activation", taken_s, Mode.EVAL)
        plan.end_forward(StepKey(step=10, mode=Mode.EVAL, mode_step=forward))
    assert 190 <= made <= 220  # a fifth: a forward earns 0.0002 s
    told = plan.take_reports(last=True)
    assert [(o.mode, o.due, o.count) for o in told if isinstance(o, Thinned)] == [
        (Mode.EVAL, 1000, 1000 - made)
    ]


def test_what_is_shed_of_evaluations_is_not_told_where_there_are_none() -> None:
    hidden = Need(kinds=("activation",), statistics=("l2",), modes=(Mode.EVAL,))
    plan = Plan(streams(Config(), [hidden]), 0.02)
    for step in range(100):
        plan.begin(step)
        assert plan.take_reports() == []
        plan.due.charge("activation", 1.0, Mode.EVAL)
        plan.budgets.earn(0.01, 0.0)
    assert not plan.due.is_due("activation", Mode.EVAL)
    assert plan.take_reports() == []


def test_what_is_remembered_of_tensors_is_bounded() -> None:
    found = [made(f"c{n}", tensors=("gradients",), statistics=("l2",))[0] for n in range(9)]
    selection = Selection(tuple(found))
    selection.define(0, GRADIENT)
    for number in range(2**9):
        active = frozenset(s.name for n, s in enumerate(found) if number >> n & 1)
        assert selection.statistics(0, active) == ({"l2"} if active else frozenset())
    assert len(selection._wanted) <= MAX_ANSWERS


def test_steps_that_a_rule_of_the_user_needs_are_full_and_others_are_light() -> None:
    need = Need(kinds=("weight",), statistics=("l2",), every=7)
    plan = Plan(streams(Config(), [need], [need]), 0.02)
    plan.selection.define(0, WEIGHT)
    plan.budgets.admits = lambda _: False  # type: ignore[method-assign]
    full = []
    for step in range(200, 240):
        plan.begin(step)
        full += [] if plan.is_light else [step]
        if step % 7 == 0:
            assert plan.due.is_due("weight", Mode.TRAIN)
    assert {step for step in full if step % 7 == 0} == set(range(203, 240, 7))
    assert plan.next_named(241) == 245


def test_what_is_captured_in_light_steps_makes_no_step_full() -> None:
    need = Need(kinds=("gradient",), statistics=("l2",))
    plan = Plan(streams(Config(), [need], [need]), 0.02)
    plan.selection.define(0, GRADIENT)
    for step in range(1000):
        plan.depths.watched(0.1, 1e-4 if plan.is_light else 0.01, 0.0, light=plan.is_light)
        plan.begin(step)
    assert plan.is_light
    assert plan.due.is_due("gradient", Mode.TRAIN)
