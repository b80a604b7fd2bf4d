"""Values still on their way from a device when a step closes come into its record later."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from tests.capture.device import SlowDevice
from tests.capture.recording import Job

from mothtrap.capture.channel import Channel
from mothtrap.capture.footprint import footprint
from mothtrap.capture.pending import PendingStep, completed
from mothtrap.capture.reductions import ReducedFirst, Reductions
from mothtrap.capture.selection import streams
from mothtrap.capture.shedding import Shedding
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.needs import Need
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.statistics.summary import COLUMN, WIDTH

NORMS = Need(kinds=("gradient",), statistics=("l2", "nan", "inf"))
RAW = Collection(tensors=("gradient:*",), raw=True)


@pytest.fixture
def job() -> Job:
    return Job(streams(Config(collections={"kept": RAW}), [NORMS]))


@pytest.fixture
def device(job: Job) -> SlowDevice:
    device = SlowDevice(job.arithmetic)
    job.recorder.captures.rows.device = device
    return device


def kept(record: StepRecord) -> list[float]:
    [block] = record.raw
    return list(block.bytes_N.view(np.float64))


def test_a_step_is_handed_on_before_its_rows_are_there(job: Job, device: SlowDevice) -> None:
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[3.0, 4.0]])
    job.recorder.captures.add_row(number, {"update_ratio": 0.5})
    record = job.close(0)
    assert record.pending is not None
    assert not record.pending.has_arrived()
    assert len(record.tensor_T) == len(record.summary_TF) == 0
    device.let_go()
    whole = completed(record)
    assert whole.pending is None
    assert whole.tensor_T.tolist() == [number]
    assert whole.summary_TF[0, COLUMN["l2"]] == 5.0
    assert whole.summary_TF[0, COLUMN["update_ratio"]] == 0.5
    assert kept(whole) == [3.0, 4.0]


def test_two_consumers_get_the_same(job: Job, device: SlowDevice) -> None:
    job.recorder.captures.reduce("gradient", [job.gradient()], [[3.0, 4.0]])
    record = job.close(0)
    device.let_go()
    one, other = completed(record), completed(record)
    np.testing.assert_array_equal(one.summary_TF, other.summary_TF)


def test_rows_of_micro_batches_become_one(job: Job, device: SlowDevice) -> None:
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[3.0]])
    job.recorder.captures.reduce("gradient", [number], [[4.0]])
    record = job.close(0)
    device.let_go()
    assert completed(record).summary_TF[0, COLUMN["l2"]] == 5.0


def test_one_step_is_sent_at_once(job: Job, device: SlowDevice) -> None:
    for name in "abc":
        job.recorder.captures.reduce("gradient", [job.gradient(name)], [[1.0]])
    assert device.sent == 0
    job.close(0)
    assert device.sent == 1


def test_what_was_lost_with_the_device_is_told(job: Job, device: SlowDevice) -> None:
    job.recorder.captures.reduce("gradient", [job.gradient()], [[3.0, 4.0]])
    record = job.close(0)
    device.failing = "CUDA error: device-side assert triggered\nCompile with ..."
    whole = completed(record)
    assert whole.pending is None
    assert len(whole.tensor_T) == 0
    assert whole.raw == ()
    reason = "the device failed: CUDA error: device-side assert triggered"
    assert [o for o in whole.observations if isinstance(o, Dropped)] == [
        Dropped(step=0, what="statistics rows", count=1, reason=reason),
        Dropped(step=0, what="tensors", count=1, reason=reason),
    ]


def test_rows_of_an_evaluation_wait_on_their_own(job: Job, device: SlowDevice) -> None:
    job.close(0)
    found = Job(streams(Config(capture="everything"), []))
    found.recorder.captures.rows.device = slow = SlowDevice(found.arithmetic)
    found.close(0)
    found.recorder.captures.reduce("gradient", [found.gradient()], [[2.0]], Mode.EVAL)
    found.recorder.captures.commit_forward(StepKey(step=0, mode=Mode.EVAL, mode_step=0))
    record = found.sink.records[-1]
    slow.let_go()
    assert completed(record).summary_TF[0, COLUMN["l2"]] == 2.0


def test_while_a_graph_is_captured_nothing_is_read(job: Job, device: SlowDevice) -> None:
    device.capturing = True
    job.recorder.captures.reduce("gradient", [job.gradient()], [[3.0]])
    assert job.arithmetic.calls == []
    assert job.close(0).pending is None


def test_numbers_of_a_step_do_not_go_with_an_evaluation_within_it() -> None:
    found = Job(streams(Config(capture="everything"), []))
    found.recorder.captures.rows.device = slow = SlowDevice(found.arithmetic)
    found.close(0)
    found.recorder.captures.rows.add_number("gradient_norm", "Adam", 0.5)
    found.recorder.captures.reduce("gradient", [found.gradient()], [[2.0]], Mode.EVAL)
    found.recorder.captures.commit_forward(StepKey(step=1, mode=Mode.EVAL, mode_step=0))
    evaluation, step = found.sink.records[-1], found.close(1)
    slow.let_go()
    assert completed(evaluation).scalars == ()
    assert Scalar("gradient_norm", "Adam", 0.5) in completed(step).scalars


def test_rows_are_asked_for_once_they_were_sent(job: Job) -> None:
    order: list[str] = []

    class Rows:
        nbytes = 0

        def has_arrived(self) -> bool:
            return False

        def rows(self) -> npt.NDArray[np.float64]:
            order.append("rows")
            return np.zeros((1, WIDTH))

    class Flight:
        def has_arrived(self) -> bool:
            return False

        def wait(self) -> None:
            order.append("flight")

    PendingStep([([7], Rows())], {}, [], Flight()).complete(job.close(0))
    assert order == ["flight", "rows"]


def test_at_the_end_no_one_waits_any_more(job: Job, device: SlowDevice) -> None:
    job.recorder.captures.reduce("gradient", [job.gradient()], [[3.0]])
    record = job.close(0)
    job.recorder.emit_facts()
    assert record.pending is not None
    assert record.pending.has_arrived()


def test_copies_go_to_memory_of_the_device(job: Job, device: SlowDevice) -> None:
    job.recorder.captures.reduce("gradient", [job.gradient()], [[3.0]])
    job.close(0)
    assert device.pinned


def test_a_channel_waits_on_its_own_thread(job: Job, device: SlowDevice) -> None:
    got: list[StepRecord] = []
    came = threading.Event()

    def consume(records: Sequence[StepRecord]) -> None:
        got.extend(records)
        came.set()

    job.recorder.captures.reduce("gradient", [job.gradient()], [[3.0, 4.0]])
    record = job.close(0)
    device.let_go()
    channel = Channel("test", consume, lambda err: None, limit_bytes=1 << 20, poll_s=0.001)
    channel.put(record)
    assert came.wait(30)
    assert channel.close()
    assert [r.pending for r in got] == [None]
    assert got[0].summary_TF[0, COLUMN["l2"]] == 5.0


def test_a_sink_that_cannot_wait_gets_whole_records_in_order(job: Job, device: SlowDevice) -> None:
    class Queue:
        def __init__(self) -> None:
            self.records: list[StepRecord] = []

        def put(self, record: StepRecord, *, urgent: bool = False) -> None:
            self.records.append(record)

        def close(self, timeout_s: float = 30.0) -> bool:
            return True

    recorder, queue = job.recorder, Queue()
    first = ReducedFirst(
        queue,
        lambda consume: Channel("reduce", consume, lambda err: None, limit_bytes=1 << 20),
        Reductions(recorder.tensors, dict, recorder.containment),
    )
    for step in range(3):
        job.recorder.captures.reduce("gradient", [job.gradient()], [[float(step)]])
        record = job.close(step)
        device.let_go()
        first.put(record)
    assert first.close()
    assert [r.key.step for r in queue.records] == [0, 1, 2]
    assert all(r.pending is None for r in queue.records)
    assert [kept(r) for r in queue.records] == [[0.0], [1.0], [2.0]]


def test_rows_on_their_way_count_as_memory_and_are_thinned_once_they_are_there(
    job: Job, device: SlowDevice
) -> None:
    good, bad = job.gradient("good"), job.gradient("bad")
    job.recorder.captures.reduce("gradient", [good, bad], [[1.0], [float("nan")]])
    record = job.close(0)
    assert footprint(record) > 2 * WIDTH * 8
    shedding = Shedding("test")
    assert shedding.thin(record) is record  # it is not known which of them are finite
    device.let_go()
    assert shedding.thin(record).tensor_T.tolist() == [bad]
