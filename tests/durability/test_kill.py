"""kill -9 at any moment leaves whole steps, and with a writer process all of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.durability.trainings import step_record
from tests.harness.running import (
    FULL,
    ITSELF,
    PYTHON,
    environment,
    finish,
    observed,
    script_of,
    show,
    start,
)
from tests.store.records import plain

from mothtrap.core.facts.workers import WorkerLost
from mothtrap.reader.run import open_run
from mothtrap.store import layout
from mothtrap.store.raw_reading import RawIndex, read_bytes
from mothtrap.store.worker_reading import EventReader, ReadState
from mothtrap.store.writers import wait_for_writers

KILLS = 20 if FULL else 8
PATIENCE_S = 60.0
SCRIPT = Path(__file__).parents[1] / "faults" / "endless_training.py"
Starter = subprocess.Popen[str]


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.durability.trainings"],
        cwd=Path(__file__).parents[2],
        env=environment(OMP_NUM_THREADS="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def train_and_kill(starter: Starter, folder: Path, writer: str, after: int) -> int:
    """Kill a training once it has printed `after` steps; return how many it has passed on.

    One that writes in a thread runs until it has written something.
    """
    assert starter.stdin is not None
    assert starter.stdout is not None
    folder.mkdir(parents=True)
    starter.stdin.write(f"{folder} {writer}\n")
    starter.stdin.flush()
    pid = int(starter.stdout.readline())
    said: list[str] = []
    while len(said) < after or (writer == "thread" and not layout.segments(folder, "events")):
        said.append(starter.stdout.readline())
    os.kill(pid, signal.SIGKILL)
    while (line := starter.stdout.readline()) != "end\n":
        said.append(line)
    assert said == [f"{step}\n" for step in range(len(said))]
    return len(said)


def stored_steps(folder: Path) -> int:
    """Read everything stored; assert that it is the beginning of what was captured."""
    state = ReadState(folder)
    records = [item for item in state.poll() if item.optimizers]
    for step, item in enumerate(records):
        assert plain(item) == plain(step_record(step))
    index = RawIndex(folder)
    rows = [row for events in EventReader(folder).poll() for row in index.take(events)]
    assert [row.key.step for row in rows] == list(range(0, len(records), 3))
    for row in rows:
        expected = step_record(row.key.step).raw[0].bytes_N
        assert read_bytes(folder, row) == expected.tobytes()
    assert not state.damage()
    return len(records)


def lost(folder: Path) -> list[WorkerLost]:
    facts = [o for events in EventReader(folder).poll() for o in events.observations]
    return [o for o in facts if isinstance(o, WorkerLost)]


def test_with_a_writer_process_no_step_that_was_handed_over_is_lost(
    starter: Starter, tmp_path: Path
) -> None:
    dice = random.Random(20)
    for trial in range(KILLS):
        folder = tmp_path / str(trial) / "w0"
        handed = train_and_kill(starter, folder, "process", dice.choice([1, dice.randrange(80)]))
        assert wait_for_writers(folder.parent, PATIENCE_S)
        # The step during which it was killed may have been passed on and not printed.
        if not handed and not layout.segments(folder, "events"):
            continue  # killed before its writer was running
        assert stored_steps(folder) in (handed, handed + 1), f"trial {trial}"
        assert len(lost(folder)) == 1
        assert all(path.read_bytes().endswith(b"ARROW1") for path in folder.glob("*.arrow"))


def test_with_a_writer_thread_what_was_written_is_whole(starter: Starter, tmp_path: Path) -> None:
    dice, stored = random.Random(21), 0
    for trial in range(KILLS // 2):
        folder = tmp_path / str(trial) / "w0"
        handed = train_and_kill(starter, folder, "thread", dice.randrange(80))
        assert stored_steps(folder) <= handed + 1
        assert lost(folder) == []
        stored += stored_steps(folder)
    assert stored > 0, "hardly anything was written: the test proves little"


def test_a_real_training_that_was_killed_is_whole_when_the_launcher_ends(tmp_path: Path) -> None:
    env = environment(MOTHTRAP_WRITER="process")
    target = ["--", *PYTHON, SCRIPT]
    command = observed(target, runs_dir=tmp_path, name="seen", python=ITSELF)
    process = start(command, cwd=tmp_path, env=env)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(100)]
    os.kill(script_of(open_run(tmp_path / "seen")), signal.SIGKILL)
    # By the same reader: it may hold lines already that the pipe no longer has.
    lines += [line for line in process.stdout if line.endswith("\n")]
    outcome = finish(process)
    assert outcome.returncode == -signal.SIGKILL
    losses = [float(line.split()[1]) for line in lines]
    stored = open_run(tmp_path / "seen")
    (series,) = stored.scalars("loss")
    # A step is passed on when the next begins: the last one printed is still open.
    assert len(losses) - 1 <= len(series) <= len(losses) + 1
    assert series.values_S.tolist()[: len(losses)] == losses[: len(series)]
    assert (stored.state, stored.damage) == ("crashed", ())
    (gone,) = stored.observations(WorkerLost)
    assert gone.step == len(series)
    assert show(tmp_path / "seen", cwd=tmp_path)["run"]["state"] == "crashed"
