"""Tensors that users log themselves."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.capture.recording import Job
from tests.capture.test_reductions import stored

from mothtrap.capture.arena import MIN_BYTES
from mothtrap.capture.logged import CALLS_PER_STEP, Logged, LoggedTensors
from mothtrap.capture.recorder import Moment
from mothtrap.capture.selection import LOGGED, of_collection
from mothtrap.core.collections import Collection
from mothtrap.core.facts.captures import Blind, Dropped, NumberLogged
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import StepRecord


def at_moments(job: Job) -> list[Moment]:
    """Make a job report its position in a step; return the list whose last item it reports."""
    moments: list[Moment] = ["within"]
    job.recorder.moment = lambda: moments[-1]
    return moments


def by_name(job: Job, record: StepRecord) -> dict[str, np.ndarray]:
    tensors = job.recorder.tensors
    return {tensors[number].identity: array for number, array in stored(record).items()}


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([0.5, -1], ml_dtypes.bfloat16),
        np.float32(2.5),
        np.zeros((0, 3)),
        True,
        7,
        1 + 2j,
        [[1.0, 2.0], [3.0, float("nan")]],
    ],
)
def test_arrays_and_numbers_are_kept_as_they_are(value: object) -> None:
    job = Job([LOGGED])
    LoggedTensors(job.recorder).add("mine", value)
    (array,) = by_name(job, job.close(0)).values()
    expected = np.asarray(value)
    assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
    assert array.tobytes() == expected.tobytes()


def test_what_is_logged_after_a_step_is_of_it_where_another_one_comes() -> None:
    job = Job([LOGGED])
    logged, moments = Logged(job.recorder, job.said.append), at_moments(job)
    for step in range(3):
        moments.append("between")
        logged.number("accuracy", step)
        logged.tensor("confusion", [step])
        record = job.close(step)
        assert [s.value for s in record.scalars if s.name == "accuracy"] == [step]
        assert by_name(job, record)["metric:confusion"].tolist() == [step]


def test_what_is_first_logged_after_the_last_step_is_of_the_next_one() -> None:
    job = Job([LOGGED])
    logged, moments = Logged(job.recorder, job.said.append), at_moments(job)
    for step in range(2):
        moments.append("between")
        logged.number("accuracy", step)
        if step == 0:
            job.close(0)
    logged.number("test accuracy", 0.5, timestamp=100.5)
    logged.tensor("confusion", [1])
    job.recorder.ends = True
    last = job.close(1)
    assert [s.name for s in last.scalars if "accuracy" in s.name] == ["accuracy"]
    job.recorder.finish(WorkerEnded(step=2, steps=2, own_s=0.0, wall_s=1.0))
    end = job.sink.records[-1]
    assert end.key.step == 2
    assert [(s.name, s.value) for s in end.scalars] == [("test accuracy", 0.5)]
    assert by_name(job, end)["metric:confusion"].tolist() == [1]
    (timed,) = (fact for fact in end.observations if isinstance(fact, NumberLogged))
    assert timed == NumberLogged(step=2, name="test accuracy", value=0.5, time_s=100.5)


@pytest.mark.parametrize("timestamp", ["yesterday", float("nan")])
def test_what_is_no_time_is_reported_and_the_number_kept(timestamp: object) -> None:
    job = Job([LOGGED])
    Logged(job.recorder, job.said.append).number("accuracy", 0.5, timestamp)  # type: ignore[arg-type]
    record = job.close(0)
    assert [s.value for s in record.scalars if s.name == "accuracy"] == [0.5]
    (said,) = job.said
    assert "not a time in Unix seconds" in said


def test_further_values_of_a_name_in_a_step_are_numbered() -> None:
    job = Job([LOGGED])
    logged = LoggedTensors(job.recorder)
    for step in range(2):
        logged.add("a", 10 * step)
        logged.add("a", 10 * step + 1)
        logged.add("b", 5)
        found = by_name(job, job.close(step))
        assert {name: int(array) for name, array in found.items()} == {
            "metric:a": 10 * step,
            "metric:a#1": 10 * step + 1,
            "metric:b": 5,
        }


def test_too_many_values_of_a_name_are_counted_and_left_out() -> None:
    job = Job([LOGGED])
    logged = LoggedTensors(job.recorder)
    for number in range(CALLS_PER_STEP + 2):
        logged.add("a", number)
    record = job.close(0)
    assert len(stored(record)) == CALLS_PER_STEP
    dropped = [o for o in record.observations if isinstance(o, Dropped)]
    assert sum(fact.count for fact in dropped) == 2


def test_memory_is_bounded() -> None:
    job = Job([LOGGED], raw_bytes=MIN_BYTES)
    logged = LoggedTensors(job.recorder)
    for _ in range(3):
        logged.add("a", np.zeros(MIN_BYTES // 2, np.uint8))
    record = job.close(0)
    assert len(stored(record)) == 2
    assert [o.count for o in record.observations if isinstance(o, Dropped)] == [1]


def test_what_is_no_tensor_raises_for_whoever_catches_it() -> None:
    job = Job([LOGGED])
    logged = LoggedTensors(job.recorder)
    with pytest.raises(KeyError, match="is not a tensor"):
        logged.add("a", ["text"])
    assert job.close(0).raw == ()


def test_metrics_may_be_reduced_too() -> None:
    collection = Collection(reductions={"n": len}, statistics=("mean",))
    job = Job([LOGGED, *of_collection("metrics", collection)])
    LoggedTensors(job.recorder).add("a", np.array([1.0, 3.0]))
    record = job.close(0)
    assert record.summary_TF[0, 6] == 2.0
    assert record.raw[0].purposes == (frozenset({"raw", "metrics.n"}),)


def test_nothing_is_kept_where_nothing_is_captured() -> None:
    job = Job(())
    LoggedTensors(job.recorder).add("a", np.zeros(3))
    record = job.close(0)
    assert (record.raw, record.defined, job.arithmetic.calls) == ((), (), [])


def test_a_name_that_is_no_text_is_left_out_and_told_once() -> None:
    job = Job([LOGGED])
    said: list[str] = []
    logged = Logged(job.recorder, said.append)
    for name in (3, None, ["a"], 4):
        logged.number(name, 1.0)  # type: ignore[arg-type]
        logged.tensor(name, 1.0)  # type: ignore[arg-type]
    record = job.close(0)
    assert said == [
        "mothtrap: log: a name must be a string, not a int",
        "mothtrap: log: a name must be a string, not a NoneType",
        "mothtrap: log: a name must be a string, not a list",
    ]
    told = [fact.what for fact in record.observations if isinstance(fact, Blind)]
    assert told[0] == "values of a int as a name"
    assert len(told) == 3
    assert all(isinstance(scalar.name, str) for scalar in record.scalars)
    assert record.raw == ()


def test_a_number_that_is_called_as_a_measured_one_is_kept_apart_from_it() -> None:
    job = Job([LOGGED])
    said: list[str] = []
    logged = Logged(job.recorder, said.append)
    for step in range(2):
        logged.number("loss", 1e6)
        logged.tensor("loss", [1.0])  # logged tensors have names of their own kind
        record = job.close(step)
        numbers = {scalar.name: scalar.value for scalar in record.scalars}
        assert numbers["log.loss"] == 1e6
        assert "loss" not in numbers
    assert said == [
        "mothtrap: log: 'loss' is stored as 'log.loss', because mothtrap measures its own 'loss'"
    ]
