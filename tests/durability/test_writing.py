"""Full disks, rival writers, clocks that jump, restarts and hostile names."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.durability.trainings import step_record
from tests.reader.runs import DEAD_PID, closing, info, started, write_worker
from tests.store.records import plain, record
from tests.store.test_raw_log import block

from mothtrap.capture.side_channel import SideChannel
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import open_run
from mothtrap.session import side_writer
from mothtrap.store import layout
from mothtrap.store.processes import start_ticks
from mothtrap.store.raw_reading import RawIndex, read_bytes
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import EventReader, ReadState, read_records

FULL_DISKS = 20
STEPS = 12


def assert_stored(folder: Path, *expected: StepRecord) -> None:
    """Assert that exactly these records are stored, whole tensors included, without damage."""
    state, index = ReadState(folder), RawIndex(folder)
    assert [plain(item) for item in state.poll()] == [plain(item) for item in expected]
    rows = [row for events in EventReader(folder).poll() for row in index.take(events)]
    stored = [read_bytes(folder, row) for row in rows]
    assert stored == [part.bytes_N.tobytes() for item in expected for part in item.raw]
    assert state.damage(ended=True) == index.damage(ended=True) == ()


class FullDisk:
    """Accepts that many bytes in total, then refuses, even in the middle of a write."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def write(self, file: int, data: memoryview) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        size = min(self.room, data.nbytes)
        self.room -= size
        return self._write(file, data[:size])


def test_a_disk_that_is_full_at_any_byte_costs_no_step_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [step_record(step) for step in range(STEPS)]
    dice, met = random.Random(28), 0
    for trial in range(FULL_DISKS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        disk = FullDisk(dice.randrange(30_000))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", disk.write)
            log = WorkerLog(folder, roll_bytes=8_000)
            for number, item in enumerate(written):
                try:
                    log.append([item])
                except OSError:
                    met += 1
                    assert_stored(folder, *written[:number])
                    disk.room = 1 << 30  # room was made
                    log.append([item])
            log.close()
        assert_stored(folder, *written)
    assert met > FULL_DISKS / 2, "most disks had room for all: the test proves little"


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Make the kernel refuse writes beyond `size` in a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [100, 1000, 5000])
def test_a_kernel_that_refuses_costs_no_step_before(size: int, tmp_path: Path) -> None:
    log, stored = WorkerLog(tmp_path), 0
    with largest_file(size), pytest.raises(OSError, match="File too large"):  # noqa: PT012
        for stored in range(100):
            log.append([step_record(stored)])
    assert_stored(tmp_path, *(step_record(step) for step in range(stored)))


def test_two_writers_in_one_folder_never_mix(tmp_path: Path) -> None:
    first, second = WorkerLog(tmp_path), WorkerLog(tmp_path)
    first.append([record(0)])
    with pytest.raises(FileExistsError):
        second.append([record(7)])
    first.append([record(1)])
    first.close()
    assert_stored(tmp_path, record(0), record(1))


def test_two_writers_on_one_run_write_beside_each_other(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "run", info())
    folders = [layout.claim_worker(attempt, 0)[1] for _ in range(2)]
    logs = [WorkerLog(folder) for folder in folders]
    for step in range(STEPS):
        for number, log in enumerate(logs):
            log.append([step_record(2 * step + number)])
    for number, (folder, log) in enumerate(zip(folders, logs, strict=True)):
        log.close()
        assert_stored(folder, *(step_record(2 * step + number) for step in range(STEPS)))
    assert open_run(tmp_path / "run").workers == (0, 1)


def test_a_wall_clock_that_jumps_changes_no_order(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "run", info(pid=DEAD_PID, created_s=2e9))
    clock_s = [2e9, 2e9 + 1, 1e9, 1e9 + 1, 3e9, 5.0]
    items = [record(step, wall_s=wall_s) for step, wall_s in enumerate(clock_s)]
    write_worker(attempt, *items, closing(len(clock_s)))
    run = open_run(tmp_path / "run")
    (series,) = run.scalars("loss")
    assert series.steps_S.tolist() == list(range(len(clock_s)))
    assert [item.wall_s for item in run.records()][: len(clock_s)] == clock_s
    assert (run.state, run.damage) == ("finished", ())


@pytest.mark.skipif(not start_ticks(os.getpid()), reason="this system does not tell")
def test_a_job_lives_whatever_the_clock_says(tmp_path: Path) -> None:
    """The clock was set ahead by a day after the job began: its process seems to be a later one."""
    yesterday_s = time.time() - 86_400
    alone = info(created_s=yesterday_s)
    with_ticks = replace(alone, pid_ticks=start_ticks(os.getpid()))
    another = replace(alone, pid_ticks=start_ticks(os.getpid()) - 1)
    states = []
    for name, details in (("alone", alone), ("ticks", with_ticks), ("another", another)):
        layout.create_run(tmp_path / name, details)
        states.append(open_run(tmp_path / name).state)
    assert states == ["crashed", "running", "crashed"]


def test_restarts_are_attempts_of_one_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    steps = [range(5), range(5, 9), range(9, 12)]
    for number, part in enumerate(steps, 1):
        details = info(attempt=number, pid=DEAD_PID, created_s=time.time())
        make = layout.create_run if number == 1 else layout.create_attempt
        attempt = make(path, details)
        torn = number < len(steps)  # the first two were killed
        first = record(part[0], observations=(started(DEAD_PID),))
        rest = [record(step) for step in part[1:]]
        end = [] if torn else [closing(part[-1] + 1)]
        write_worker(attempt, first, *rest, *end, seal=not torn)
        if torn:
            events = attempt / "w0" / "events-00000000.arrow"
            os.truncate(events, events.stat().st_size - 3)
    run = open_run(path)
    assert (run.attempts, run.steps) == (3, 12)
    (series,) = run.scalars("loss")
    lost = {4, 8}  # the last step of each process that was killed
    assert series.steps_S.tolist() == [step for step in range(12) if step not in lost]
    assert all(a < b for a, b in pairwise(series.steps_S.tolist()))
    assert series.values_S.tolist() == [1 / (step + 1) for step in range(12) if step not in lost]
    assert sum("contain no complete batch" in text for text in run.damage) == 2


HOSTILE = (
    "../../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "a\nb\r\x1b[2J\x1b]0;title\x07",
    "\ud800lone\udfff",
    "n" * 10_000,
    "",
    "🦋'\";--<script>alert(1)</script>",
    "..",
    "CON",
    "\u202eright to left",
)


@pytest.mark.parametrize("writer", ["thread", "process"])
def test_hostile_names_are_data(writer: str, tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "run", info(pid=DEAD_PID))
    _, folder = layout.claim_worker(attempt)
    tensors = tuple(
        (i, TensorInfo(kind="gradient", name=name, module=name, location=name, shape=(2,)))
        for i, name in enumerate(HOSTILE)
    )
    item = record(
        0,
        tensors=len(HOSTILE),
        defined=tensors,
        scalars=tuple(Scalar(name, name, float(i)) for i, name in enumerate(HOSTILE)),
        optimizers=HOSTILE[:3],
        raw=(block(*(np.arange(i) for i in range(len(HOSTILE)))),),
    )
    if writer == "process":
        ring, alive = side_writer.start(folder, queue_bytes=1 << 20, durability="crash")
        channel = SideChannel(ring, alive, pytest.fail)
        channel.put(item)
        assert channel.close()
    else:
        log = WorkerLog(folder)
        log.append([item])
        log.close()
    names = [name.encode("utf-8", "backslashreplace").decode() for name in HOSTILE]
    (stored, *_) = read_records(folder)
    assert [tensor.name for _, tensor in stored.defined] == names
    assert [tensor.location for _, tensor in stored.defined] == names
    assert [(s.name, s.of, s.value) for s in stored.scalars] == [
        (name, name, float(i)) for i, name in enumerate(names)
    ]
    matrix = open_run(tmp_path / "run").stats("gradient", statistics=("l2",))["l2"]
    assert {tensor.name for tensor in matrix.tensors} == set(names)
    kinds = ("events", "index", "raw", "scalars", "stats")
    assert sorted(os.listdir(folder)) == [f"{kind}-00000000.arrow" for kind in kinds]
    assert sorted(os.listdir(tmp_path)) == ["run"]
    assert sorted(os.listdir(tmp_path / "run")) == ["1"]
