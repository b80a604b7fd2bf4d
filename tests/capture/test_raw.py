"""Tensors kept whole: which are copied, how much memory they use, how gaps are reported."""

from __future__ import annotations

import numpy as np
import pytest
from tests.capture.recording import Job
from tests.capture.records import NEVER_S, PATIENCE_S, Consumer, record

from mothtrap.capture.arena import MIN_BYTES, WAIT_S, Arenas
from mothtrap.capture.channel import Channel
from mothtrap.capture.raw import KEEP, RawCopies, StepCopies
from mothtrap.capture.selection import RAW, Stream
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.records import RawBlock
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import built
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.dtypes import dtype_of


def keeps(kind: str, *statistics: str, every: int = 1, modes: tuple[Mode, ...] = tuple(Mode)):
    return Stream(
        name=f"raw {kind}",
        kinds=(kind,),
        statistics=frozenset({RAW, *statistics}),
        matches=lambda _: True,
        schedules=dict.fromkeys(modes, Schedule(every=every)),
    )


def arrays(blocks) -> list[np.ndarray]:
    return [
        block.bytes_N[a:b].view(dtype_of(dtype)).reshape(shape)
        for block in blocks
        for dtype, shape, a, b in zip(
            block.dtypes, block.shapes, block.offset_R[:-1], block.offset_R[1:], strict=True
        )
    ]


def test_copies_are_those_of_the_moment() -> None:
    copies = RawCopies(arithmetic, Arenas(8 * MIN_BYTES))
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert copies.add(4, values.T)
    assert copies.add(9, np.float64(2.5).reshape(()))
    values[:] = 0
    (block,) = copies.take()
    assert block.tensor_R.tolist() == [4, 9]
    first, second = arrays([block])
    assert first.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert second.shape == ()
    assert float(second) == 2.5
    assert copies.take() == []


@pytest.mark.parametrize("compiled", [True, False])
def test_many_are_copied_at_once_into_as_many_pieces_as_they_need(
    monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr(built, "arrays", None)
    draw = np.random.default_rng(0)
    values = [draw.standard_normal(size) for size in (3, 0, 7, MIN_BYTES // 16, MIN_BYTES // 16)]
    values += [values[0].reshape(3, 1).T, values[3][::-2], np.arange(5, dtype=">i4"), values[4] > 0]
    big = np.zeros(6 * MIN_BYTES, np.uint8)
    copies = RawCopies(arithmetic, Arenas(4 * MIN_BYTES))
    assert copies.add(50, values[2])
    wanted = [(number, value, KEEP) for number, value in enumerate([*values, big, values[0]])]
    ((refused, is_full),) = copies.add_all(wanted)
    assert refused is big
    assert is_full
    assert copies.add(51, values[0])
    blocks = copies.take()
    assert len(blocks) > 1
    numbers = [number for block in blocks for number in block.tensor_R.tolist()]
    assert numbers == [50, *range(len(values)), len(values) + 1, 51]
    expected = [values[2], *values, values[0], values[0]]
    for found, value in zip(arrays(blocks), expected, strict=True):
        assert found.dtype == value.dtype.newbyteorder("<")
        assert found.shape == value.shape
        assert found.tolist() == value.tolist()


@pytest.mark.parametrize("many", [1, 2])
def test_a_copy_that_fails_leaves_the_others_in_their_places(many: int) -> None:
    """Copies after the failed one are stored at the offset where it was to end."""

    class Failing:
        describe = staticmethod(arithmetic.describe)

        def copy_bytes(self, *about: object) -> None:
            raise MemoryError

        gather_bytes = copy_bytes

    copies = RawCopies(arithmetic, Arenas(4 * MIN_BYTES))
    assert copies.add(0, np.arange(3))
    with pytest.raises(MemoryError):
        copies.add_all([(1, np.arange(9), KEEP)] * many, Failing())
    assert copies.add(2, np.arange(5))
    blocks = copies.take()
    assert [number for block in blocks for number in block.tensor_R.tolist()] == [0, 2]
    assert [found.tolist() for found in arrays(blocks)] == [[0, 1, 2], [0, 1, 2, 3, 4]]


def test_what_does_not_fit_in_one_piece_comes_in_several() -> None:
    copies = RawCopies(arithmetic, Arenas(4 * MIN_BYTES))
    big = np.arange(MIN_BYTES // 4 * 3, dtype=np.uint8)
    for number in range(3):
        assert copies.add(number, big)
    blocks = copies.take()
    assert len(blocks) == 3
    assert all(np.array_equal(a, big) for a in arrays(blocks))


def test_memory_is_used_again_once_no_one_holds_it() -> None:
    arenas = Arenas(2 * MIN_BYTES)
    copies = RawCopies(arithmetic, arenas)
    seen = set()
    for step in range(5):
        copies.add(0, np.full(10, step))
        (block,) = copies.take()
        seen.add(block.bytes_N.ctypes.data)
        del block
    assert len(seen) == 1
    assert arenas.bytes_held == MIN_BYTES


def test_a_slice_keeps_its_piece() -> None:
    arenas = Arenas(2 * MIN_BYTES)
    copies = RawCopies(arithmetic, arenas)
    copies.add(0, np.full(10, 7))
    (block,) = copies.take()
    part = block.bytes_N[8:16]
    del block
    copies.add(0, np.full(10, 8))
    assert part.view(np.int64).tolist() == [7]


def test_without_memory_nothing_is_copied_and_that_is_said() -> None:
    copies = RawCopies(arithmetic, Arenas(MIN_BYTES))
    assert copies.add(0, np.zeros(10))
    held = copies.take()
    assert not copies.add(0, np.zeros(10))
    assert copies.take() == []
    del held
    assert copies.add(0, np.zeros(10))


def test_a_tensor_beyond_the_limit_is_never_copied() -> None:
    assert not RawCopies(arithmetic, Arenas(MIN_BYTES)).add(0, np.zeros(MIN_BYTES))


def test_a_step_brings_its_tensors() -> None:
    job = Job([keeps("gradient", "l2", every=16)])
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[3.0, 4.0]])
    record = job.close(0)
    assert [a.tolist() for a in arrays(record.raw)] == [[3.0, 4.0]]
    assert record.tensor_T.tolist() == [number]
    for step in range(1, 20):
        if job.recorder.due.is_due("gradient"):
            job.recorder.captures.reduce("gradient", [number], [[step, 0.0]])
        assert bool(job.close(step).raw) == (step == 16)


def test_tensors_alone_cost_no_statistics() -> None:
    job = Job([keeps("gradient")])
    job.recorder.captures.reduce("gradient", [job.gradient()], [[1.0]])
    assert len(job.close(0).tensor_T) == 0
    assert job.arithmetic.calls == ["copy"]


def test_tensors_of_a_forward_go_with_its_mode() -> None:
    job = Job([keeps("activation"), keeps("gradient")])
    recorder = job.recorder
    number = recorder.tensors.define(TensorInfo(kind="activation", name="relu"))
    assert number is not None
    job.close(0)
    recorder.captures.begin_forward()
    recorder.captures.reduce("activation", [number], [[1.0]])
    recorder.captures.begin_forward()  # the first never returned
    recorder.captures.reduce("activation", [number], [[2.0]])
    recorder.captures.commit_forward(StepKey(step=1))
    recorder.captures.begin_forward()
    recorder.captures.reduce("activation", [number], [[3.0]])
    recorder.captures.commit_forward(StepKey(step=1, mode=Mode.EVAL))
    assert job.sink.records[-1].key.mode is Mode.EVAL
    assert [a.tolist() for a in arrays(job.sink.records[-1].raw)] == [[3.0]]
    assert [a.tolist() for a in arrays(job.close(1).raw)] == [[2.0]]


def test_tensors_of_a_forward_that_outlives_a_step_belong_to_the_next() -> None:
    job = Job([keeps("activation")])
    number = job.recorder.tensors.define(TensorInfo(kind="activation", name="relu"))
    job.recorder.captures.begin_forward()
    job.recorder.captures.reduce("activation", [number], [[1.0]])
    assert job.close(0).raw == ()
    job.recorder.captures.commit_forward(StepKey(step=1))
    assert [a.tolist() for a in arrays(job.close(1).raw)] == [[1.0]]
    assert job.close(2).raw == ()


def test_what_a_forward_that_outlives_a_step_lacked_is_not_lacking_for_ever() -> None:
    job = Job([keeps("activation"), keeps("gradient")], raw_bytes=MIN_BYTES)
    number = job.recorder.tensors.define(TensorInfo(kind="activation", name="relu"))
    too_large = [0.0] * (2 * MIN_BYTES // 8)
    job.recorder.captures.begin_forward()
    job.recorder.captures.reduce("activation", [number], [too_large])
    job.close(0)
    job.recorder.captures.commit_forward(StepKey(step=1))
    job.close(1)
    job.recorder.captures.reduce("gradient", [job.gradient()], [too_large])
    (dropped,) = job.close(2).observations
    assert isinstance(dropped, Dropped)
    assert dropped.reason.startswith("the copies of one step take 2 MB")


def test_tensors_that_found_no_memory_are_counted() -> None:
    job = Job([keeps("gradient")], raw_bytes=MIN_BYTES)
    number = job.gradient()
    job.recorder.captures.reduce("gradient", [number], [[1.0]])
    job.close(0)  # its record holds the only block
    job.recorder.captures.reduce("gradient", [number, number], [[1.0], [2.0]])
    record = job.close(1)
    (dropped,) = [o for o in record.observations if isinstance(o, Dropped)]
    assert (dropped.step, dropped.what, dropped.count) == (1, "tensors", 2)
    assert record.raw == ()


@pytest.mark.parametrize("block", [True, False])
def test_a_block_can_wait_for_memory(block: bool) -> None:
    copies = RawCopies(arithmetic, Arenas(MIN_BYTES), wait_s=30.0 if block else 0.0)
    copies.add(0, np.zeros(10))
    held: list[RawBlock] = list(copies.take())
    released: list[bool] = []

    def release(seconds: float) -> None:
        released.append(True)
        held.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mothtrap.capture.arena.time.sleep", release)
        assert copies.add(0, np.zeros(10)) == block
    assert released == [True] * block


class Sleeps:
    """Counts the waits for memory; the last copies are released after `patience` of them."""

    def __init__(self, patch: pytest.MonkeyPatch, patience: float = float("inf")) -> None:
        self.count = 0
        self.held: list[RawBlock] = []
        self._now_s, self._patience = 0.0, patience
        patch.setattr("mothtrap.capture.arena.time.sleep", self._sleep)
        patch.setattr("mothtrap.capture.arena.time.monotonic", lambda: self._now_s)

    def _sleep(self, seconds: float) -> None:
        self.count += 1
        self._now_s += seconds
        if self.count % self._patience == 0:
            self.held.clear()


def test_a_block_does_not_wait_for_memory_that_the_step_itself_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleeps = Sleeps(monkeypatch)
    copies = RawCopies(arithmetic, Arenas(4 * MIN_BYTES), wait_s=60.0)
    big = np.zeros(MIN_BYTES // 4 * 3, np.uint8)
    for _ in range(2):
        assert [copies.add(number, big) for number in range(6)].count(True) >= 4
        assert not copies.add(7, np.zeros(5 * MIN_BYTES, np.uint8))
        copies.take()
    assert sleeps.count == 0


def test_a_step_that_fills_the_memory_waits_once_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleeps = Sleeps(monkeypatch, patience=2)
    copies = RawCopies(arithmetic, Arenas(4 * MIN_BYTES), wait_s=60.0)
    eighth = np.zeros(MIN_BYTES * 19 // 40, np.uint8)  # 95 % of the memory in total
    for _ in range(4):
        assert all(copies.add(number, eighth) for number in range(8))
        sleeps.held += copies.take()
    assert sleeps.count == 3 * 2


def test_a_disk_that_hangs_holds_the_training_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Sleeps(monkeypatch)
    copies = RawCopies(arithmetic, Arenas(MIN_BYTES), wait_s=60.0)
    assert copies.add(0, np.zeros(10))
    sleeps.held += copies.take()
    for step in range(3):
        assert not any(copies.add(number, np.zeros(10)) for number in range(9)), step
        assert copies.take() == []
    assert sleeps.count == pytest.approx(60.0 / WAIT_S, rel=0.01)
    sleeps.held.clear()
    assert copies.add(0, np.zeros(10))


def test_copies_of_forwards_and_of_the_step_share_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleeps = Sleeps(monkeypatch)
    copies = StepCopies(arithmetic, Arenas(2 * MIN_BYTES), wait_s=60.0)
    for number in range(3):
        copies.begin_forward()
        wanted = [(number, np.zeros(MIN_BYTES, np.uint8), KEEP)]
        copies.add_all(wanted, arithmetic, waits=True)
        copies.keep(copies.take_forward())
    copies.add_all([(3, np.zeros(10), KEEP)], arithmetic, waits=False)
    assert (sleeps.count, len(copies.take())) == (0, 2)
    assert sum(fact.count for fact in copies.take_dropped(0)) == 2


def test_a_step_too_large_for_the_memory_says_how_much_it_needs() -> None:
    job = Job([keeps("gradient")], raw_bytes=4 * MIN_BYTES)
    number = job.gradient()
    for step in range(2):
        job.recorder.captures.reduce("gradient", [number] * 3, [[1.0] * (2 * MIN_BYTES // 8)] * 3)
        record = job.close(step)
        job.sink.records.clear()
        (dropped,) = [o for o in record.observations if isinstance(o, Dropped)]
        assert (dropped.what, dropped.count) == ("tensors", 1)
        assert "6 MB" in dropped.reason
        assert "queue_mb = 4" in dropped.reason
        assert "raise queue_mb" in dropped.reason
        del record


def test_small_tensors_in_large_pieces_of_memory_wake_the_consumer() -> None:
    """In a small model, the tensors of a step occupy a kilobyte of a block of a megabyte."""
    consumer = Consumer()
    arenas = Arenas(8 * MIN_BYTES)
    copies = RawCopies(arithmetic, arenas)
    channel = Channel(
        "writer", consumer, consumer.errors.append, limit_bytes=arenas.limit_bytes, poll_s=NEVER_S
    )
    for step in range(3):
        assert copies.add(0, np.zeros(3, np.float32))
        channel.put(record(step, raw=tuple(copies.take())))
    assert consumer.entered.wait(PATIENCE_S)
    channel.close()
