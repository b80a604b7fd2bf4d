"""The path of records to the disk is bounded, reports its losses, and survives its consumer."""

from __future__ import annotations

import threading
import tracemalloc
import weakref
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pytest
from tests.capture.records import BYTES, NEVER_S, PATIENCE_S, Consumer, defined, record
from tests.store.test_raw_log import block

from mothtrap.capture import channel as channels
from mothtrap.capture.channel import Channel
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind, Dropped
from mothtrap.core.records import StepRecord

Policy = Literal["degrade", "drop", "block"]


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


def opened(
    consume: Callable[[Sequence[StepRecord]], None],
    *,
    room: float = 1e6,
    on_full: Policy = "degrade",
    errors: list[BaseException] | None = None,
) -> Channel:
    """Open a channel with room for that many records; only explicit wake-ups wake it."""
    failures = [] if errors is None else errors
    return Channel(
        "writer",
        consume,
        failures.append,
        limit_bytes=room * BYTES,
        on_full=on_full,
        poll_s=NEVER_S,
    )


def busy(consumer: Consumer, channel: Channel) -> None:
    """Let the consumer take record 0 and stay busy with it."""
    consumer.hold()
    channel.put(record(0), urgent=True)
    assert consumer.entered.wait(PATIENCE_S)


def dropped(item: StepRecord) -> dict[str, int]:
    return {o.what: o.count for o in item.observations if isinstance(o, Dropped)}


def observed(item: StepRecord) -> list[Fact]:
    return [o for o in item.observations if not isinstance(o, Dropped)]


def test_records_arrive_once_and_in_order(consumer: Consumer) -> None:
    channel = opened(consumer)
    for step in range(100):
        channel.put(record(step), urgent=step % 7 == 0)
    assert channel.close()
    assert consumer.steps == list(range(100))


def test_closing_lets_the_consumer_finish_what_waits(consumer: Consumer) -> None:
    channel = opened(consumer)
    for step in range(5):
        channel.put(record(step))
    assert channel.close()
    assert consumer.steps == [0, 1, 2, 3, 4]


def test_closing_says_when_the_consumer_is_too_slow(consumer: Consumer) -> None:
    channel = opened(consumer)
    busy(consumer, channel)
    assert not channel.close(timeout_s=0.0)
    consumer.let_go()
    assert channel.close()


def test_a_closed_channel_takes_nothing(consumer: Consumer) -> None:
    channel = opened(consumer)
    channel.close()
    channel.put(record(0), urgent=True)
    assert channel.close()
    assert consumer.batches == []


def test_an_urgent_record_wakes_the_consumer(consumer: Consumer) -> None:
    channel = opened(consumer)
    channel.put(record(0))
    channel.put(record(1), urgent=True)
    assert consumer.entered.wait(PATIENCE_S)
    assert consumer.steps[-1] == 1
    channel.close()


def test_a_job_that_stays_urgent_wakes_the_consumer_at_its_onset_alone(consumer: Consumer) -> None:
    channel = opened(consumer, room=1e6)
    woken: list[int] = []
    wake = channel._wake
    channel._wake = lambda: (woken.append(len(woken)), wake())[1]  # type: ignore[method-assign]
    for step in range(100):
        channel.put(record(step), urgent=True)
    assert channel.close()
    assert len(woken) == 16
    assert consumer.steps == list(range(100))


def test_a_queue_that_is_half_full_wakes_the_consumer(consumer: Consumer) -> None:
    channel = opened(consumer, room=8)
    for step in range(5):
        channel.put(record(step))
    assert consumer.entered.wait(PATIENCE_S)
    channel.close()


def test_what_waits_is_taken_at_the_polling_interval(consumer: Consumer) -> None:
    channel = Channel("writer", consumer, consumer.errors.append, limit_bytes=1e9, poll_s=0.001)
    channel.put(record(0))
    assert consumer.entered.wait(PATIENCE_S)
    channel.close()
    assert consumer.steps == [0]


def test_drop_keeps_whole_steps_up_to_the_limit(consumer: Consumer) -> None:
    channel = opened(consumer, room=3, on_full="drop")
    busy(consumer, channel)
    for step in range(1, 11):
        channel.put(record(step))
    consumer.let_go()
    assert channel.close()
    assert consumer.steps[:3] == [0, 1, 2]  # records that the consumer holds count
    assert all(len(item.tensor_T) == 4 for item in consumer.records[:3])
    assert dropped(consumer.records[-1]) == {"steps": 8}


def test_degrade_keeps_numbers_and_the_rows_that_are_not_finite(consumer: Consumer) -> None:
    channel = opened(consumer, room=2)
    busy(consumer, channel)
    channel.put(record(1))
    channel.put(record(2))
    channel.put(record(3, nonfinite=[2]))
    consumer.let_go()
    assert channel.close()
    assert consumer.steps == [0, 1, 2, 3]
    thinned = consumer.records[3]
    assert thinned.tensor_T.tolist() == [2]
    assert thinned.summary_TF.shape[0] == 1
    assert [s.name for s in thinned.scalars] == ["loss"]
    assert dropped(thinned) == {"statistics rows": 3}


def test_degrade_is_bounded_too(consumer: Consumer) -> None:
    channel = opened(consumer, room=2)
    busy(consumer, channel)
    for step in range(1, 1001):
        channel.put(record(step, nonfinite=[0, 1, 2, 3]))
    consumer.let_go()
    assert channel.close()
    assert len(consumer.batches[1]) <= 2 * 2 + 1
    lost = sum(dropped(item).get("steps", 0) for item in consumer.records)
    kept = sum(len(item.tensor_T) > 0 for item in consumer.records[1:])
    assert lost + kept == 1000


def test_block_waits_and_loses_nothing(consumer: Consumer) -> None:
    channel = opened(consumer, room=3, on_full="block")
    busy(consumer, channel)

    def put_all() -> None:
        for step in range(1, 101):
            channel.put(record(step))

    training = threading.Thread(target=put_all)
    training.start()
    consumer.let_go()
    training.join(PATIENCE_S)
    assert not training.is_alive()
    assert channel.close()
    assert consumer.steps == list(range(101))
    assert max(len(batch) for batch in consumer.batches) <= 3
    assert all(not dropped(item) for item in consumer.records)


def test_a_record_larger_than_the_limit_gets_through_an_empty_queue(consumer: Consumer) -> None:
    for policy in ("degrade", "drop", "block"):
        channel = opened(consumer, room=0.1, on_full=policy)
        channel.put(record(0))
        assert channel.close()
    assert consumer.steps == [0, 0, 0]
    assert all(len(item.tensor_T) == 4 for item in consumer.records)


@pytest.mark.parametrize("policy", ["drop", "degrade"])
def test_the_next_record_brings_what_a_dropped_one_defined_and_saw(
    policy: Policy, consumer: Consumer
) -> None:
    channel = opened(consumer, room=1, on_full=policy)
    busy(consumer, channel)
    channel.put(record(1))
    for step in (2, 3, 4):
        seen = Blind(step=step, what=f"part {step}", reason="hidden")
        every = [0, 1, 2, 3]
        channel.put(record(step, nonfinite=every, defined=(defined(step),), observations=(seen,)))
    consumer.entered.clear()
    consumer.let_go()
    assert consumer.entered.wait(PATIENCE_S)
    channel.put(record(5, defined=(defined(5),)))
    assert channel.close()
    assert [pair for item in consumer.records for pair in item.defined] == [
        defined(number) for number in (2, 3, 4, 5)
    ]
    names = [o.what for item in consumer.records for o in observed(item) if isinstance(o, Blind)]
    assert names == ["part 2", "part 3", "part 4"]
    assert sum(dropped(item).get("steps", 0) for item in consumer.records) >= 2


def test_closing_brings_what_the_last_dropped_record_saw(consumer: Consumer) -> None:
    channel = opened(consumer, room=1, on_full="drop")
    busy(consumer, channel)
    ending = Blind(step=2, what="the end", reason="dropped")
    channel.put(record(1))
    channel.put(record(2, observations=(ending,)))
    consumer.let_go()
    assert channel.close()
    last = consumer.records[-1]
    assert observed(last) == [ending]
    assert dropped(last) == {"steps": 1}
    assert len(last.tensor_T) == len(last.scalars) == 0


def test_facts_of_dropped_records_are_bounded(consumer: Consumer) -> None:
    channel = opened(consumer, room=1, on_full="drop")
    busy(consumer, channel)
    channel.put(record(1))
    for step in range(2, 3002):
        channel.put(record(step, observations=(Blind(step=step, what=str(step), reason=""),)))
    consumer.let_go()
    assert channel.close()
    last = consumer.records[-1]
    assert len(observed(last)) == 1000
    assert dropped(last) == {"steps": 3000, "observations": 2000}


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit(3)])
def test_a_consumer_that_raises_closes_the_channel_and_is_reported_once(
    error: BaseException,
) -> None:
    errors: list[BaseException] = []
    calls = []

    def fail(records: Sequence[StepRecord]) -> None:
        calls.append(records)
        raise error

    channel = opened(fail, errors=errors)
    channel.put(record(0), urgent=True)
    channel.put(record(1), urgent=True)
    assert channel.close()
    channel.put(record(2), urgent=True)
    assert errors == [error]
    assert len(calls) == 1


def test_a_consumer_that_raises_lets_a_waiting_training_go() -> None:
    entered, gate = threading.Event(), threading.Event()

    def fail(records: Sequence[StepRecord]) -> None:
        entered.set()
        assert gate.wait(PATIENCE_S)
        raise OSError("disk full")

    channel = opened(fail, room=1, on_full="block")
    channel.put(record(0), urgent=True)
    assert entered.wait(PATIENCE_S)
    training = threading.Thread(target=lambda: [channel.put(record(s)) for s in range(1, 10)])
    training.start()
    gate.set()
    training.join(PATIENCE_S)
    assert not training.is_alive()
    assert channel.close()


def test_drops_can_be_told_to_another(consumer: Consumer) -> None:
    told: list[Dropped] = []
    channel = Channel(
        "rules",
        consumer,
        consumer.errors.append,
        limit_bytes=BYTES,
        on_full="drop",
        poll_s=NEVER_S,
        on_dropped=told.append,
    )
    busy(consumer, channel)
    for step in range(1, 4):
        channel.put(record(step))
    consumer.let_go()
    assert channel.close()
    assert [(fact.what, fact.count, fact.reason) for fact in told] == [
        ("steps", 2, "rules queue full")
    ]
    assert all(dropped(item) == {} for item in consumer.records)


@pytest.mark.parametrize("policy", ["drop", "degrade"])
def test_a_consumer_that_hangs_costs_bounded_memory(policy: Policy, consumer: Consumer) -> None:
    """Records that the consumer holds count, as do the texts and numbers of a step."""
    limit = 1 << 20
    channel = opened(consumer, room=limit / BYTES, on_full=policy)
    scalars = record(0).scalars
    for step in range(100):  # a batch that the consumer takes in one call
        channel.put(record(step))
    busy(consumer, channel)
    tracemalloc.start()
    try:
        for step in range(1, 1000):
            told = Blind(step=step, what=f"{step:05}" * 800, reason="")
            channel.put(record(step, observations=(told,), scalars=scalars * 20))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    consumer.let_go()
    assert channel.close()
    owed = 1000 * 4200  # at most this many facts of dropped steps
    assert taken < 2 * limit + owed
    assert len(consumer.records) < 1100 / 2


def test_a_block_does_not_wait_for_ever(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "BLOCK_S", 0.0)
    channel = opened(consumer, room=3, on_full="block")
    busy(consumer, channel)
    waits: list[float] = []
    wait_for = channel._changed.wait_for

    def waiting(predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        waits.append(timeout or 0.0)
        return wait_for(predicate, timeout)

    monkeypatch.setattr(channel._changed, "wait_for", waiting)
    for step in range(1, 11):
        channel.put(record(step))
    assert waits == [0.0]
    consumer.let_go()
    assert channel.close()
    assert consumer.steps[:3] == [0, 1, 2]
    assert sum(dropped(item).get("statistics rows", 0) for item in consumer.records) > 0


def test_it_is_said_how_many_steps_a_consumer_that_raises_has_lost() -> None:
    errors: list[BaseException] = []

    def fail(records: Sequence[StepRecord]) -> None:
        raise OSError("disk full")

    channel = opened(fail, errors=errors)
    for step in range(3):
        channel.put(record(step))
    assert channel.close()
    assert errors[0].__notes__ == ["3 steps that were waiting for it are lost"]


@pytest.mark.parametrize(("spent_s", "pause_s"), [(0.0, 0.05), (2e-4, 0.1), (0.002, 1.0), (5, 1.0)])
def test_a_consumer_rests_a_second_at_most(spent_s: float, pause_s: float) -> None:
    assert 0.05 * channels._polls(spent_s, 0.05) == pytest.approx(pause_s)


def test_memory_of_tensors_is_free_as_soon_as_they_are_consumed() -> None:
    """It is free before the consumer is woken again, which the training may be waiting for."""
    seen: list[weakref.ref[np.ndarray]] = []
    done = threading.Event()

    def consume(records: Sequence[StepRecord]) -> None:
        seen.extend(weakref.ref(item.raw[0].bytes_N) for item in records)

    channel = opened(consume)
    take = channel._take
    channel._take = lambda pause_s: (done.set() if seen else None, take(pause_s))[1]  # type: ignore[method-assign]
    channel.put(record(0, raw=(block(np.arange(3)),)), urgent=True)
    assert done.wait(PATIENCE_S)
    assert [item() for item in seen] == [None]
    assert channel.close()
