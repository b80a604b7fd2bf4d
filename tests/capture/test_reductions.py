"""Numbers and distributions computed from copies, off the training thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.capture.recording import Job

from mothtrap.capture.channel import Channel
from mothtrap.capture.containment import Containment
from mothtrap.capture.reductions import ReducedFirst, Reductions
from mothtrap.capture.selection import of_collection
from mothtrap.core.collections import Collection
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.distribution import quantiles
from mothtrap.statistics.dtypes import dtype_of

VALUES = [[1.0, -2.0, 4.0], [8.0, 0.0]]


def stored(record: StepRecord) -> dict[int, np.ndarray]:
    """Return the tensors of a record, by number."""
    return {
        number: block.bytes_N[start:end].view(dtype_of(dtype)).reshape(shape)
        for block in record.raw
        for number, dtype, shape, start, end in zip(
            block.tensor_R.tolist(),
            block.dtypes,
            block.shapes,
            block.offset_R[:-1],
            block.offset_R[1:],
            strict=True,
        )
    }


class Case:
    """A job with one collection of gradients, and the records of its first step."""

    def __init__(self, **fields: Any) -> None:
        self.job = Job(of_collection("mine", Collection(tensors=("gradients",), **fields)))
        self.numbers = [self.job.gradient("a"), self.job.gradient("b")]
        recorder = self.job.recorder
        containment = Containment(self.job.said.append)
        self.reductions = Reductions(
            recorder.tensors, lambda: recorder.plan.reductions, containment
        )

    def captured(self, step: int = 0) -> StepRecord:
        self.job.recorder.captures.reduce("gradient", self.numbers, VALUES)
        return self.job.close(step)

    def step(self, step: int = 0) -> StepRecord:
        (record,) = self.reductions.work_out([self.captured(step)])
        return record


def scalars(record: StepRecord) -> list[Scalar]:
    return [scalar for scalar in record.scalars if scalar.of.startswith("gradient:")]


def test_a_function_gets_the_array_and_its_number_becomes_a_scalar_of_the_tensor() -> None:
    record = Case(reductions={"range": np.ptp}).step()
    assert scalars(record) == [
        Scalar("range", "gradient:a", 6.0),
        Scalar("range", "gradient:b", 8.0),
    ]
    assert record.raw == ()


def test_names_of_functions_and_collections_may_hold_dots() -> None:
    job = Job(
        of_collection("my.own", Collection(tensors=("gradients",), reductions={"p99.9": max}))
    )
    case = Case(raw=True)
    case.job, case.numbers = job, [job.gradient("a"), job.gradient("b")]
    case.reductions = Reductions(
        job.recorder.tensors, lambda: job.recorder.plan.reductions, Containment(print)
    )
    assert {scalar.name for scalar in scalars(case.step())} == {"p99.9"}


def test_copies_are_kept_where_that_was_asked_for_too() -> None:
    case = Case(reductions={"range": np.ptp}, raw=True)
    record = case.step()
    assert len(scalars(record)) == 2
    found = stored(record)
    assert [found[number].tolist() for number in case.numbers] == VALUES
    assert all(block.purposes == () for block in record.raw)


def test_of_copies_for_different_purposes_those_to_be_kept_are_kept() -> None:
    job = Job(
        (
            *of_collection("a", Collection(tensors=("gradients:a",), raw=True)),
            *of_collection("all", Collection(tensors=("gradients",), reductions={"n": len})),
        )
    )
    case = Case(raw=True)
    case.job, case.numbers = job, [job.gradient("a"), job.gradient("b")]
    case.reductions = Reductions(
        job.recorder.tensors, lambda: job.recorder.plan.reductions, Containment(print)
    )
    record = case.step()
    assert {number: a.tolist() for number, a in stored(record).items()} == {0: VALUES[0]}
    assert [scalar.value for scalar in scalars(record)] == [3.0, 2.0]


def test_distributions_become_tensors_of_their_own() -> None:
    case = Case(statistics=("quantiles",))
    record = case.step()
    names = {info.name: number for number, info in record.defined}
    found = stored(record)
    assert set(found) == set(names.values()) - set(case.numbers)
    for name, values in zip("ab", VALUES, strict=True):
        array = np.array(values)
        assert np.array_equal(found[names[f"quantiles(gradient:{name})"]], quantiles(array))
    infos = dict(record.defined)
    info = infos[names["quantiles(gradient:a)"]]
    assert (info.kind, info.shape, info.dtype) == ("metric", (9,), "float64")


def test_a_function_that_fails_is_told_of_once_and_switched_off() -> None:
    calls = []

    def broken(array: np.ndarray) -> float:
        calls.append(array)
        raise ZeroDivisionError("no")

    case = Case(reductions={"broken": broken, "n": len})
    first, second = case.step(0), case.step(1)
    (failure,) = [o for o in first.observations if isinstance(o, ToolError)]
    assert (failure.part, failure.error) == ("reduction mine.broken", "ZeroDivisionError: no")
    assert len(calls) == 1
    assert second.observations == ()
    assert [scalar.value for scalar in scalars(second)] == [3.0, 2.0]
    assert len(case.job.said) == 1


def test_what_a_function_returns_must_be_a_number() -> None:
    record = Case(reductions={"all": lambda array: array}).step()
    (failure,) = [o for o in record.observations if isinstance(o, ToolError)]
    assert failure.error.startswith("TypeError: ")


def test_a_function_cannot_change_what_is_stored() -> None:
    case = Case(reductions={"sort": lambda array: array.sort()}, raw=True)
    record = case.step()
    assert [o.error[:10] for o in record.observations if isinstance(o, ToolError)] == ["ValueError"]
    assert stored(record)[case.numbers[0]].tolist() == VALUES[0]


def test_records_without_such_copies_pass_as_they_are() -> None:
    case = Case(raw=True)
    record = case.captured()
    assert case.reductions.work_out([record])[0] is record


class Queue:
    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.closed = False

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        self.records.append(record)

    def close(self, timeout_s: float = 30.0) -> bool:
        self.closed = True
        return True


@pytest.mark.parametrize("reduced", [True, False])
def test_a_thread_works_out_for_a_queue_that_cannot_and_only_then(reduced: bool) -> None:
    case = Case(**({"reductions": {"n": len}} if reduced else {"raw": True}))
    queue, threads = Queue(), []

    def channel(consume: Callable[[Sequence[StepRecord]], None]) -> Channel:
        threads.append(consume)
        return Channel("test", consume, lambda err: None, limit_bytes=2**20)

    first = ReducedFirst(queue, channel, case.reductions)
    records = [case.captured(step) for step in range(3)]
    for record in records:
        first.put(record)
    assert first.close()
    assert queue.closed
    assert len(threads) == reduced
    assert [record.key.step for record in queue.records] == [0, 1, 2]
    assert [len(scalars(record)) for record in queue.records] == [2 * reduced] * 3


def test_a_tensor_that_is_wanted_later_is_told_of_later() -> None:
    job = Job(())
    job.recorder.tensors.define(TensorInfo(kind="weight", name="w"))
    assert job.close(0).defined == ()
    asked = {"mine": Collection(tensors=("weights",), statistics=("exponents",))}
    job.recorder.changes.make(asked)
    assert [info.name for _, info in job.close(1).defined] == ["w", "exponents(weight:w)"]
    job.recorder.changes.make(asked)
    assert job.close(2).defined == ()
