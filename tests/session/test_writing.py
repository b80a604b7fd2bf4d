"""A worker whose disk is full trains on, and stores on once there is room."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.session.test_worker import Adapter, step

import mothtrap
from mothtrap.core.config import Config
from mothtrap.core.observations import WorkerEnded
from mothtrap.core.records import StepRecord
from mothtrap.session import launch
from mothtrap.session.worker import Worker
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return layout.create_run(tmp_path / "seen", launch.run_info("seen", ["train.py"], Config()))


def train(attempt: Path, steps: int) -> list[str]:
    """Let a worker make some steps and end; return what it said."""
    said: list[str] = []
    worker = Worker(lambda: attempt, Config(select=("LOS",)), Adapter(), said.append)
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
    assert "the disk refuses what is captured" in said[0]


def test_a_disk_that_is_full_to_the_end_is_complained_of_with_what_it_cost(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(WorkerLog, "append", full)
    said = train(attempt, 5)
    assert len(said) == 2
    assert "writer failed" in said[1]
    assert said[1].endswith("6 steps that were waiting for it are lost)")  # one for the end
