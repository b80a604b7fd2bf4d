"""Full disks and killed writers: training continues, and storing continues when possible."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.session.test_worker import step
from tests.store.records import record

import mothtrap
from mothtrap.capture import side_channel
from mothtrap.capture.channel import Channel
from mothtrap.capture.ring import Ring
from mothtrap.capture.side_channel import SideChannel
from mothtrap.capture.succession import Succession
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunEnd
from mothtrap.session import launch, side_writer
from mothtrap.session.worker import Worker
from mothtrap.session.writing import LateLog
from mothtrap.store import layout
from mothtrap.store.patient_log import PatientLog
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import read_records


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return layout.create_run(tmp_path / "seen", launch.run_info("seen", ["train.py"], Config()))


def train(attempt: Path, steps: int) -> list[str]:
    """Let a worker make some steps and end; return its messages."""
    said: list[str] = []
    worker = Worker(
        lambda: attempt, Config(select=("LOS",), ignore=("LOS414",)), "numpy", said.append
    )
    for number in range(steps):
        step(worker, number)
    worker.close()
    return said


def test_a_disk_that_refuses_for_a_while_costs_no_step(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, refused = WorkerLog.append, threading.Event()

    def refusing_once(log: WorkerLog, records: list[StepRecord]) -> None:
        if not refused.is_set():
            refused.set()
            raise OSError(28, "No space left on device")
        append(log, records)

    monkeypatch.setattr(WorkerLog, "append", refusing_once)
    said = train(attempt, 30)
    stored = mothtrap.open_run(attempt.parent)
    assert (stored.steps, stored.state) == (30, "finished")
    assert len(stored.observations(WorkerEnded)) == 1
    assert stored.tool_errors == ()
    assert len(said) == 2
    assert "captured data cannot be written" in said[0]


def test_a_disk_that_is_full_to_the_end_is_complained_of_with_what_it_cost(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(WorkerLog, "append", full)
    said = train(attempt, 5)
    assert len(said) == 2
    assert "writer failed" in said[1]
    assert said[1].endswith("6 steps that were waiting for it are lost)")  # one for the end


def test_a_disk_with_room_for_little_has_the_end_and_how_many_steps_are_lost(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = WorkerLog.append

    def full_for_steps(log: WorkerLog, records: list[StepRecord]) -> None:
        if any(record.scalars for record in records):
            raise OSError(28, "No space left on device")
        append(log, records)

    monkeypatch.setattr(WorkerLog, "append", full_for_steps)
    train(attempt, 5)
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))
    stored = mothtrap.open_run(attempt.parent)
    assert stored.state == "finished"
    (lost,) = stored.observations(Dropped)
    assert (lost.what, lost.count) == ("steps", 5)
    assert "No space left" in lost.reason
    assert [error.part for error in stored.tool_errors] == ["writer"]


def test_on_a_full_disk_the_room_that_the_run_holds_is_left_to_its_end(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = WorkerLog.append

    def full_while_room_is_held(log: WorkerLog, records: list[StepRecord]) -> None:
        if list(attempt.glob("w*/reserve")):
            raise OSError(28, "No space left on device")
        append(log, records)

    monkeypatch.setattr(WorkerLog, "append", full_while_room_is_held)
    train(attempt, 5)
    stored = mothtrap.open_run(attempt.parent)
    assert len(stored.observations(WorkerEnded)) == 1
    assert sum(lost.count for lost in stored.observations(Dropped)) >= 5
    assert not list(attempt.rglob("reserve"))


def test_a_thread_writes_on_when_the_writer_process_is_killed(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were waiting in the memory of that process are written, too."""
    monkeypatch.setattr(side_channel, "_LOOK_S", 0.0)
    ends: list[Callable[[], None]] = []
    rings: list[Ring] = []

    def start(folder: Path, **options: object) -> tuple[Ring, Callable[[], bool]]:
        """Create the memory, with a reading process that never reads but counts as alive."""
        file, size = Ring.create(1 << 20)
        rings.append(Ring(file, size))
        os.close(file)
        killed = threading.Event()
        ends.append(killed.set)
        return rings[0], lambda: not killed.is_set()

    monkeypatch.setattr(side_writer, "start", start)
    said: list[str] = []
    config = Config(writer="process", select=("LOS",))
    worker = Worker(lambda: attempt, config, "numpy", said.append)
    for number in range(20):
        if number == 10:
            assert rings[0].used > 0
            ends[0]()
        step(worker, number)
    worker.close()
    stored = mothtrap.open_run(attempt.parent)
    assert (stored.steps, stored.state, stored.damage) == (20, "finished", ())
    assert len(stored.observations(WorkerEnded)) == 1
    (error,) = stored.tool_errors
    assert error.part == "writer process"
    (line,) = said
    assert "it was killed from outside; from now on, a thread of the job writes" in line


def test_a_writer_process_that_is_killed_at_the_end_leaves_what_waits_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_channel, "_LOOK_S", 0.0)
    file, size = Ring.create(1 << 20)
    ring, lives = Ring(file, size), threading.Event()
    os.close(file)
    lives.set()
    log = LateLog(lambda: PatientLog(WorkerLog(tmp_path), lambda _: True, pytest.fail))
    errors: list[BaseException] = []
    side = SideChannel(ring, lives.is_set, errors.append)
    queue = Succession(
        side, lambda: Channel("writer", log.append, errors.append, limit_bytes=2**20)
    )
    for number in range(3):
        queue.put(record(number))
    lives.clear()
    assert queue.close()
    log.close()
    assert [item.key.step for item in read_records(tmp_path)] == [0, 1, 2]
    assert len(errors) == 1
