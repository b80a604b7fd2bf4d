from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, closing, info, write_worker
from tests.store.records import plain, record

from mothtrap.core.errors import RunNotFoundError
from mothtrap.core.runs import RunEnd
from mothtrap.reader import follow as follow_module
from mothtrap.reader.follow import follow
from mothtrap.store import layout

WRITER = """
import os, sys, time
from pathlib import Path
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog
from tests.reader.runs import closing, info, started
from tests.store.records import record
attempt = layout.create_run(Path(sys.argv[1]), info())
log = WorkerLog(layout.claim_worker(attempt)[1], roll_bytes=20_000)
log.append([record(0, observations=(started(os.getpid()),))])
print("ready", flush=True)
for step in range(1, 200):
    log.append([record(step)])
    if step == 100:
        sys.stdin.readline()
if sys.argv[2] == "close":
    log.append([closing(200)])
    log.close()
else:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["close", "die"])
def test_records_come_while_another_process_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(follow_module, "JUDGE_EVERY_S", 0.01)
    command = [sys.executable, "-c", WRITER, str(tmp_path / "x"), how]
    pipe = subprocess.PIPE
    writer = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert writer.stdout
    assert writer.stdin
    assert writer.stdout.readline() == "ready\n"
    got = []
    for rank, item in follow(tmp_path / "x", poll_s=0.001):
        assert rank == 0
        got.append(plain(item))
        if len(got) == 101:  # the writer waits at 100: these came while it was alive
            assert writer.poll() is None
            writer.stdin.write("go on\n")
            writer.stdin.flush()
    assert got[1:200] == [plain(record(step)) for step in range(1, 200)]
    assert got[200:] == ([plain(closing(200))] if how == "close" else [])
    assert writer.wait() == (0 if how == "close" else -signal.SIGKILL)
    writer.stdin.close()
    writer.stdout.close()


def test_workers_and_attempts_are_followed(tmp_path: Path) -> None:
    first = layout.create_run(tmp_path / "x", info(pid=DEAD_PID))
    write_worker(first, record(0))
    second = layout.create_attempt(tmp_path / "x", info(attempt=2, pid=os.getpid()))
    write_worker(second, record(1), closing(2))
    write_worker(second, record(1), closing(2))
    layout.write_end(second, RunEnd(exit_code=0, ended_s=1.0))
    got = [(rank, item.key.step) for rank, item in follow(tmp_path / "x")]
    assert got == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]


def test_following_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="no run found"):
        next(follow(tmp_path / "x"))
