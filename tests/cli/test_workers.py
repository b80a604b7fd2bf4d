"""`mothtrap workers`."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mothtrap.cli import main
from mothtrap.core.fact import Fact
from mothtrap.core.facts.stalls import CollectiveCall, WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded, WorkerPace, WorkerStarted
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunInfo
from mothtrap.core.steps import StepKey
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import layout
from mothtrap.store.processes import start_ticks
from mothtrap.store.stalls import write_stall
from mothtrap.store.worker_log import WorkerLog


def add_worker(attempt: Path, rank: int, *facts: Fact, steps: int = 3) -> Path:
    """Store a worker of a job of four, with this process as its process."""
    _, folder = layout.claim_worker(attempt, rank)
    started = WorkerStarted(
        step=0,
        rank=rank,
        world_size=4,
        pid=os.getpid(),
        pid_ticks=start_ticks(os.getpid()),
        host=socket.gethostname(),
        framework="torch",
        versions={},
    )
    log = WorkerLog(folder)
    for step in range(steps):
        log.append(
            [
                StepRecord(
                    key=StepKey(step=step, mode_step=step),
                    wall_s=time.time(),
                    tensor_T=np.empty(0, np.uint32),
                    summary_TF=np.empty((0, WIDTH)),
                    observations=(started, *facts) if step == 0 else (),
                )
            ]
        )
    return folder


@pytest.fixture(autouse=True)
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    info = RunInfo(
        id="x",
        attempt=1,
        command=("train.py",),
        cwd=".",
        created_s=time.time(),
        pid=os.getpid(),
        host=socket.gethostname(),
        python="3",
        mothtrap="0",
    )
    return layout.create_run(tmp_path / "runs" / "x", info)


def lines(*options: str) -> list[str]:
    done = CliRunner().invoke(main, ["workers", "x", *options])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def stalled(rank: int, call: CollectiveCall | None, place: str) -> WorkerStalled:
    return WorkerStalled(
        step=2, rank=rank, waited_s=31, is_idle=True, function="f", location=place, collective=call
    )


def test_each_worker_has_a_line_and_missing_ones_are_named(attempt: Path) -> None:
    add_worker(attempt, 0, WorkerPace(step=0, steps=50, step_s=0.08, own_s=0.0121))
    ended = WorkerEnded(step=3, steps=3, own_s=0, wall_s=1, exception="ValueError: no")
    add_worker(attempt, 2, ended)
    first, head, zero, two = lines()
    assert first == "2 of 4 ranks seen; missing: 1, 3"
    titles = "rank node steps last step mothtrap step time state"
    assert " ".join(head.split()) == titles
    assert zero.split()[:3] == ["0", socket.gethostname(), "3"]
    assert " ".join(zero.split()).endswith("s ago 12.1 ms 80 ms trains")
    assert two.endswith("failed: ValueError: no")


def test_where_workers_are_that_make_no_step(attempt: Path) -> None:
    waits = CollectiveCall(name="all_reduce", number=14, waits=True)
    states = [stalled(0, waits, "train.py:9"), stalled(1, None, "data.py:8")]
    states += [WorkerStalled(step=2, rank=2, waited_s=31, function="f", location="a.py:1")]
    states += [WorkerStalled(step=2, rank=3, waited_s=0, has_resumed=True)]
    for state in states:
        write_stall(add_worker(attempt, state.rank), state)
    first, _, *rows = lines()
    assert first == "4 of 4 ranks seen"
    words = [row.partition(" s ago ")[2].strip() for row in rows]
    assert words == [
        "waits: all_reduce in f (train.py:9)",
        "idle: f (data.py:8)",
        "busy: f (a.py:1)",
        "trains",
    ]


def test_json_has_the_same(attempt: Path) -> None:
    add_worker(attempt, 1)
    (line,) = lines("--format", "json")
    found = json.loads(line)
    assert found["expected"] == 4
    assert [(w["rank"], w["steps"], w["state"]) for w in found["workers"]] == [(1, 3, "trains")]
