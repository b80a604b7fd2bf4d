"""The path of records to another process is bounded, reports its losses, and ends with it."""

from __future__ import annotations

import os
import threading
from typing import Literal

import numpy as np
import pytest
from tests.capture.records import PATIENCE_S, defined, record
from tests.store.test_raw_log import block

from mothtrap.capture import side_channel
from mothtrap.capture.ring import Bytes, ReaderState, Ring
from mothtrap.capture.side_channel import SideChannel
from mothtrap.core.facts.captures import Blind, Dropped
from mothtrap.core.records import StepRecord
from mothtrap.store.wire import decode

Policy = Literal["degrade", "drop", "block"]
SIZE = 16_384
LARGE = np.ones(10_000, np.uint8)


class Pair:
    """A channel and the reader of its other end, in one process.

    Attributes:
        alive: whether the other end is assumed to be running.
    """

    def __init__(self, on_full: Policy = "degrade") -> None:
        file, size = Ring.create(SIZE)
        ring, self.other = Ring(file, size), Ring(file, size)
        os.close(file)
        self.alive = True
        self.errors: list[BaseException] = []
        self.channel = SideChannel(ring, lambda: self.alive, self.errors.append, on_full=on_full)
        self._begun: list[Bytes] = []

    def read(self) -> list[StepRecord]:
        found = []
        for data, last in self.other.read(1 << 30):
            self._begun.append(data)
            if last:
                found.append(decode(np.concatenate(self._begun)))
                self._begun = []
        return found

    def read_until(self, over: threading.Event) -> list[StepRecord]:
        found = []
        while not over.is_set():
            found += self.read()
        return found + self.read()

    def fill(self, *, first: int = 0) -> int:
        """Put records until one is dropped; return how many were put whole."""
        for step in range(first, 10_000):
            self.channel.put(record(step))
            if self.channel._shedding._dropped or self.channel._shedding._owed:
                return step
        raise AssertionError("the ring never got full")


def dropped(*items: StepRecord) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        for o in item.observations:
            if isinstance(o, Dropped):
                assert o.reason == "writer queue full"
                found[o.what] = found.get(o.what, 0) + o.count
    return found


def test_what_was_put_is_in_the_memory_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    for step in range(5):
        pair.channel.put(record(step, raw=(block(np.arange(step)),)), urgent=step == 2)
    found = pair.read()
    assert [item.key.step for item in found] == [0, 1, 2, 3, 4]
    assert [len(item.raw[0].bytes_N) for item in found] == [0, 8, 16, 24, 32]


def test_drop_gives_up_whole_steps_and_says_so() -> None:
    pair = Pair("drop")
    kept = pair.fill()
    pair.channel.put(record(kept + 1, observations=(Blind(step=9, what="x", reason="y"),)))
    found = pair.read()
    assert [item.key.step for item in found] == list(range(kept))
    assert all(len(item.tensor_T) == 4 for item in found)
    pair.channel.put(record(kept + 2, defined=(defined(3),)))
    (after,) = pair.read()
    assert dropped(after) == {"steps": 2}
    assert [o.what for o in after.observations if isinstance(o, Blind)] == ["x"]
    assert after.defined == (defined(3),)


def test_degrade_gives_up_whole_tensors_first_then_rows_then_steps() -> None:
    pair = Pair()
    pair.channel.put(record(0, raw=(block(LARGE),)))
    pair.channel.put(record(1, raw=(block(LARGE),)))
    first, second = pair.read()
    assert (len(first.raw), len(second.raw)) == (1, 0)
    assert len(second.tensor_T) == 4
    assert dropped(second) == {"tensors": 1}

    lost_from = pair.fill(first=2)
    found = pair.read()
    assert found[-1].key.step == lost_from - 1
    thinned = [item.key.step for item in found if not len(item.tensor_T)]
    assert thinned
    assert thinned == list(range(thinned[0], lost_from)), "steps are thinned before one is lost"
    assert dropped(*found) == {"statistics rows": 4 * len(thinned)}
    pair.channel.put(record(lost_from + 1))
    assert dropped(*pair.read()) == {"steps": 1, "statistics rows": 4}


def test_rows_that_are_not_finite_are_kept() -> None:
    pair = Pair()
    full = pair.fill()
    step = next(item.key.step for item in pair.read() if not len(item.tensor_T))
    for number in range(step):
        pair.channel.put(record(number))
    pair.channel.put(record(full, nonfinite=[2]))
    assert pair.read()[-1].tensor_T.tolist() == [2]


@pytest.mark.parametrize("size", [10, 5 * SIZE])
def test_block_waits_and_loses_nothing(size: int) -> None:
    pair, over = Pair("block"), threading.Event()
    found: list[StepRecord] = []
    other = threading.Thread(target=lambda: found.extend(pair.read_until(over)))
    other.start()
    for step in range(100):
        pair.channel.put(record(step, raw=(block(np.full(size, step, np.uint8)),)))
    over.set()
    other.join(PATIENCE_S)
    assert [item.key.step for item in found] == list(range(100))
    assert all((item.raw[0].bytes_N == item.key.step).all() for item in found)
    assert all(len(item.raw[0].bytes_N) == size for item in found)
    assert dropped(*found) == {}


def test_a_block_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process may be trying in vain to write to a full disk."""
    monkeypatch.setattr(side_channel, "BLOCK_S", 0.0)
    pair = Pair("block")
    full = pair.fill()
    for step in range(full + 1, full + 10):
        pair.channel.put(record(step))
    found = pair.read()
    assert [item.key.step for item in found] == list(range(full))
    pair.channel.put(record(full + 10))
    assert dropped(*pair.read())["steps"] == 10
    assert pair.channel._waits, "there is room again, so that the next time it waits"


def test_closing_waits_for_the_other_and_brings_what_is_owed() -> None:
    pair = Pair("drop")
    kept = pair.fill()
    found: list[StepRecord] = []

    def read_and_end() -> None:
        while not pair.other.closing:
            found.extend(pair.read())
        found.extend(pair.read())
        pair.other.enter(ReaderState.DONE)

    other = threading.Thread(target=read_and_end)
    other.start()
    assert pair.channel.close()
    other.join(PATIENCE_S)
    assert [item.key.step for item in found] == list(range(kept + 1))
    assert len(found[-1].tensor_T) == 0
    assert dropped(*found) == {"steps": 1}
    assert pair.errors == []
    pair.channel.put(record(99))
    assert pair.read() == []
    assert pair.channel.close()


def test_closing_says_when_the_other_is_too_slow() -> None:
    pair = Pair()
    assert not pair.channel.close(timeout_s=0.0)
    assert pair.other.closing


def test_a_failure_of_the_other_is_told_once_and_closes_the_channel() -> None:
    pair = Pair()
    pair.channel.put(record(0))
    pair.other.enter(ReaderState.FAILED, "OSError: [Errno 28] No space left on device")
    for step in (1, 2):
        pair.channel.put(record(step))
    assert pair.channel.close()
    (error,) = pair.errors
    assert "No space left on device" in str(error)
    assert len(pair.read()) == 1


@pytest.mark.parametrize("on_full", ["degrade", "drop", "block"])
def test_a_full_ring_whose_reader_is_gone_does_not_hold_the_training(
    on_full: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_channel, "_LOOK_S", 0.0)
    pair = Pair(on_full)
    pair.alive = False
    for step in range(1000):
        pair.channel.put(record(step))
    assert pair.channel.close()
    (error,) = pair.errors
    assert "killed from outside" in str(error)


def test_a_reader_that_is_gone_is_seen_while_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise all steps of a small job would go into memory that is never read."""
    now_s = [100.0]
    monkeypatch.setattr(side_channel.time, "monotonic", lambda: now_s[0])
    pair = Pair()
    looks: list[float] = []
    monkeypatch.setattr(pair.channel, "_alive", lambda: bool(looks.append(now_s[0])) or pair.alive)
    for step in range(10):
        pair.channel.put(record(step))
        pair.read()
        now_s[0] += 0.2
    assert len(looks) == 3, "a look costs some microseconds, and is taken each half second"
    pair.alive = False
    now_s[0] += 0.5
    pair.channel.put(record(10))
    assert len(pair.errors) == 1
    assert pair.read() == []


def test_a_reader_that_is_gone_is_seen_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_channel, "_LOOK_S", 0.0)
    pair = Pair()
    pair.channel.put(record(0))
    pair.alive = False
    assert pair.channel.close()
    assert len(pair.errors) == 1


def test_a_reader_that_ended_in_order_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_channel, "_LOOK_S", 0.0)
    pair = Pair()
    pair.other.enter(ReaderState.DONE)
    pair.alive = False
    assert pair.channel.close()
    assert pair.errors == []
