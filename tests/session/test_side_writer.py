"""The process beside the training writes all it was given, and ends with the training."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.harness.running import environment, observed, run
from tests.reader.runs import DEAD_PID, info
from tests.session.test_worker import step as close_step
from tests.store.records import plain, record
from tests.store.test_raw_log import block

from mothtrap.capture.ring import ReaderState, Ring
from mothtrap.capture.side_channel import SideChannel
from mothtrap.core.config import Config
from mothtrap.core.facts.workers import WorkerEnded, WorkerLost
from mothtrap.reader.run import open_run
from mothtrap.session import side_writer
from mothtrap.session.worker import Worker
from mothtrap.store import layout
from mothtrap.store.wire import encode
from mothtrap.store.worker_reading import ReadState, read_records
from mothtrap.store.writers import at_work, marked, wait_for_writers

TRAINING = Path(__file__).parents[1] / "faults" / "small_training.py"
PATIENCE_S = 60.0
MIB = 1 << 20


@pytest.fixture
def ring() -> Ring:
    file, size = Ring.create(MIB)
    made = Ring(file, size)
    os.close(file)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w0").mkdir()
    return tmp_path / "w0"


def refuse(error: BaseException) -> None:
    raise AssertionError(error)


def sealed(folder: Path) -> bool:
    return all(path.read_bytes().endswith(b"ARROW1") for path in folder.glob("*.arrow"))


def test_what_is_put_is_written_and_sealed(folder: Path) -> None:
    ring, alive = side_writer.start(folder, queue_bytes=MIB, durability="power")
    assert alive()
    channel = SideChannel(ring, alive, refuse)
    written = [record(step, raw=(block(np.arange(step)),)) for step in range(50)]
    for item in written:
        channel.put(item)
    pid = ring.reader_pid
    assert pid not in {child.pid for child in psutil.Process().children(recursive=True)}
    assert os.getsid(pid) == os.getpgid(pid) != os.getsid(0)
    assert at_work(folder.parent) == [0]
    assert channel.close()
    assert sealed(folder)
    assert at_work(folder.parent) == []
    state = ReadState(folder)
    assert [plain(item) for item in read_records(folder, state)] == [plain(r) for r in written]
    assert state.damage(ended=True) == ()
    assert len(list(folder.glob("raw-*"))) == 1


def test_it_inherits_nothing_but_the_memory(folder: Path) -> None:
    ends = os.pipe()
    for end in ends:
        os.set_inheritable(end, True)
    ring, alive = side_writer.start(folder, queue_bytes=MIB, durability="crash")
    files = Path(f"/proc/{ring.reader_pid}/fd")
    if files.exists():
        opened = {os.readlink(path) for path in files.iterdir()}
        assert not [name for name in opened if name.startswith(("pipe:", "socket:"))]
        assert os.readlink(files / "0") == os.devnull
        assert os.readlink(f"/proc/{ring.reader_pid}/cwd") == "/"
    for end in ends:
        os.close(end)
    assert SideChannel(ring, alive, refuse).close()


def test_it_is_deaf_to_what_ends_the_job(folder: Path) -> None:
    ring, alive = side_writer.start(folder, queue_bytes=MIB, durability="crash")
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        os.kill(ring.reader_pid, getattr(signal, name))
    channel = SideChannel(ring, alive, refuse)
    channel.put(record(0))
    assert channel.close()
    assert len(read_records(folder)) == 1


def test_of_a_peer_that_is_gone_all_is_written_and_the_loss_is_said(
    ring: Ring, folder: Path
) -> None:
    written = [record(step) for step in range(3)]
    for item in written:
        ring.write(encode(item))
    ring.write(encode(record(3))[:2], last=False)  # it was killed within a message
    side_writer.write_from(ring, folder, DEAD_PID)
    *records, last = read_records(folder)
    assert [plain(item) for item in records] == [plain(item) for item in written]
    assert last.observations == (WorkerLost(step=3, pid=DEAD_PID),)
    assert sealed(folder)


def test_of_a_peer_that_had_ended_nothing_more_is_said(ring: Ring, folder: Path) -> None:
    end = WorkerEnded(step=1, steps=1, own_s=0.0, wall_s=1.0)
    ring.write(encode(record(0, observations=(end,))))
    side_writer.write_from(ring, folder, DEAD_PID)
    assert len(read_records(folder)) == 1


def test_more_than_a_chunk_is_read_without_waiting(
    ring: Ring, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_writer, "CHUNK_BYTES", 1)
    for step in range(10):
        ring.write(encode(record(step)))
    waits: list[float] = []
    side_writer.write_from(ring, folder, DEAD_PID, sleep=waits.append)
    assert len(read_records(folder)) == 11
    assert waits == []


def test_what_the_disk_refuses_is_told(folder: Path) -> None:
    ring, alive = side_writer.start(folder, queue_bytes=MIB, durability="crash")
    resource.prlimit(ring.reader_pid, resource.RLIMIT_FSIZE, (1000, 1000))
    errors: list[BaseException] = []
    channel = SideChannel(ring, alive, errors.append)
    for step in range(30):
        channel.put(record(step))
    assert channel.close()
    (error,) = errors
    assert "File too large" in str(error)
    assert ring.state is ReaderState.FAILED
    assert at_work(folder.parent) == []
    assert ReadState(folder).damage(ended=True) == ()


def test_a_writer_that_was_killed_is_told(folder: Path) -> None:
    ring, alive = side_writer.start(folder, queue_bytes=MIB, durability="crash")
    os.kill(ring.reader_pid, signal.SIGKILL)
    errors: list[BaseException] = []
    channel = SideChannel(ring, alive, errors.append)
    channel.put(record(0))
    assert channel.close()
    assert len(errors) == 1
    assert wait_for_writers(folder.parent, PATIENCE_S)


def test_a_training_without_standard_streams_has_one_too(folder: Path) -> None:
    code = (
        "import os, sys; os.closerange(0, 3)\n"
        "from pathlib import Path\n"
        "from mothtrap.session import side_writer\n"
        "ring, alive = side_writer.start(Path(sys.argv[1]), queue_bytes=1, durability='crash')\n"
        "os._exit(0 if alive() else 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], timeout=PATIENCE_S)
    assert done.returncode == 0
    assert wait_for_writers(folder.parent, PATIENCE_S)
    assert len(read_records(folder)) == 1  # that the training ended without notice


def test_one_that_is_killed_while_it_starts_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = side_writer._spawn

    def spawn_and_kill(command: list[str], file: int) -> None:
        spawn(command, file)
        ring = Ring(file, json.loads(command[-1])[1])
        while not ring.reader_pid:
            os.sched_yield()
        os.kill(ring.reader_pid, signal.SIGKILL)

    monkeypatch.setattr(side_writer, "_spawn", spawn_and_kill)
    with pytest.raises(OSError, match="killed as soon as"):
        side_writer.start(folder, queue_bytes=MIB, durability="crash")


def test_one_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        side_writer.start(folder / "gone", queue_bytes=MIB, durability="crash")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(OSError, match="No such file or directory"):
        side_writer.start(folder, queue_bytes=MIB, durability="crash")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="exit code 1"):
        side_writer.start(folder, queue_bytes=MIB, durability="crash")


def test_a_mark_of_another_host_or_of_no_one_is_not_waited_for(folder: Path) -> None:
    with marked(folder):
        assert at_work(folder.parent) == [0]
        assert not wait_for_writers(folder.parent, 0.0)
        dead = f'{{"pid": {DEAD_PID}, "host": "{socket.gethostname()}"}}'
        for text in ('{"pid": 1, "host": "another"}', dead, "{"):
            (folder / "writer.json").write_text(text)
            assert wait_for_writers(folder.parent, 0.0)


def test_an_observed_script_writes_through_a_process_and_never_meets_it(tmp_path: Path) -> None:
    """`os.wait` would not return as long as a child is alive that ends with the script."""
    script = tmp_path / "train.py"
    script.write_text(
        TRAINING.read_text(encoding="utf-8").replace(
            "sys.exit(3)",
            "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    sys.exit(4)",
        ),
        encoding="utf-8",
    )
    env = environment(MOTHTRAP_WRITER="process", MOTHTRAP_DURABILITY="power")
    seen = run(observed([script], runs_dir=tmp_path, name="seen"), cwd=tmp_path, env=env)
    assert seen.returncode == 4, seen.stderr
    stored = open_run(tmp_path / "seen")
    assert (stored.steps, stored.state, stored.damage) == (64, "finished", ())
    assert len(stored.observations(WorkerEnded)) == 1
    assert stored.observations(WorkerLost) == ()
    assert sealed(tmp_path / "seen" / "1" / "w0")


def test_where_no_process_can_be_started_a_thread_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    config = Config(writer="process", select=("LOS",))
    attempt = layout.create_run(tmp_path / "run", info())
    worker = Worker(lambda: attempt, config, "numpy", said.append)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for number in range(3):
        close_step(worker, number)
    worker.close()
    assert len(said) == 1, said
    (line,) = said
    assert line.startswith("mothtrap: no writer process could be started ([Errno 2] No such file")
    assert line.endswith("a thread of this process writes instead")
    records = read_records(attempt / "w0")
    assert [item.key.step for item in records if item.optimizers] == [0, 1, 2]


def test_it_loads_no_framework() -> None:
    code = "import mothtrap.session.side_writer, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pyarrow"} & set(done.stdout.split())
