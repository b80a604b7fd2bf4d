"""State of a run that may still be running, from its processes or, remotely, from new data."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, closing, info, write_worker
from tests.reader.series.test_steps import a_run, member, steps
from tests.store.records import record

from mothtrap.core.errors import RunExistsError
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunEnd
from mothtrap.reader.files import attempts
from mothtrap.reader.run import open_run
from mothtrap.session import sending
from mothtrap.session.resuming import next_attempt
from mothtrap.store import layout, mirror
from mothtrap.store.backends.local import LocalStore
from mothtrap.store.processes import start_ticks
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.writers import marked


def begun(rank: int, *, pid: int, pid_ticks: int = 0) -> StepRecord:
    """Return the first record of a worker, with the start time of its process."""
    item = member(rank, pid=pid)
    (start,) = item.observations
    assert isinstance(start, WorkerStarted)
    known = {name: getattr(start, name) for name in start.__struct_fields__}
    return replace(item, observations=(WorkerStarted(**(known | {"pid_ticks": pid_ticks})),))


def test_a_run_that_has_just_ended_is_as_it_was_until_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    log = write_worker(attempt, *steps(0), seal=False)
    run = open_run(tmp_path / "x")
    log.append([*steps(1), closing(2)])
    log.close()
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))
    monkeypatch.setattr(attempts, "_process_alive", lambda *_: False)
    assert (run.state, run.damage) == ("running", ())
    run.refresh()
    assert (run.state, run.steps, run.damage) == ("finished", 2, ())


def test_a_script_goes_on_when_its_launcher_was_killed(tmp_path: Path) -> None:
    run = a_run(tmp_path, pid=DEAD_PID)
    log = WorkerLog(layout.claim_worker(run.path / "1")[1])
    log.append([member(0, world_size=1)])
    run = open_run(run.path)
    assert run.state == "running"
    following = run.follow()
    assert next(following).key.step == 0
    log.append(steps(1))
    assert next(following).key.step == 1
    with pytest.raises(sending.RunBusyError, match="still writes to"):
        sending.send(run.path, (tmp_path / "store").as_uri())
    with pytest.raises(RunExistsError, match="it is still running"):
        next_attempt(run.path)
    log.append([closing(2)])
    log.close()
    assert list(following) == []
    assert run.state == "finished"


def test_a_run_is_written_until_its_writer_process_has_ended(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0, pid=DEAD_PID)], [member(1, pid=DEAD_PID)], pid=DEAD_PID)
    with marked(layout.worker_folder(run.path / "1", 1)):
        run = open_run(run.path)
        assert run.state == "running"
        assert (run.status(1).state, run.status(1).missing) == ("not yet", (0, 1))
        assert run._span.latest.gone == {0}
        with pytest.raises(sending.RunBusyError):
            sending.send(run.path, (tmp_path / "store").as_uri())
    run.refresh()
    assert run.state == "crashed"


@pytest.mark.skipif(not start_ticks(os.getpid()), reason="this system does not tell")
def test_a_worker_whose_pid_is_anothers_now_is_gone(tmp_path: Path) -> None:
    own = start_ticks(os.getpid())
    first = begun(0, pid=os.getpid(), pid_ticks=own)
    run = a_run(tmp_path, [first], [begun(1, pid=os.getpid(), pid_ticks=own - 1)])
    assert run._span.latest.gone == {1}
    alone = a_run(tmp_path / "b", [begun(0, pid=os.getpid(), pid_ticks=own - 1)], pid=DEAD_PID)
    assert alone.state == "crashed"


class Clock:
    """The two clocks that a reader uses, advanced by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now_s, self._steady_s = time.time(), time.monotonic()
        monkeypatch.setattr(time, "time", lambda: self._now_s)
        monkeypatch.setattr(time, "monotonic", lambda: self._steady_s)

    def move(self, seconds: float) -> None:
        self._now_s += seconds
        self._steady_s += seconds


def test_an_outage_of_the_store_is_no_end_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    attempt = layout.create_run(tmp_path / "store" / "x", info(host="elsewhere", pid=DEAD_PID))
    write_worker(attempt, record(0))
    clock = Clock(monkeypatch)
    run = open_run(attempt.parent.as_uri())
    children = LocalStore.children
    with monkeypatch.context() as down:
        down.setattr(LocalStore, "children", _refuse)
        clock.move(50)
        with pytest.warns(mirror.StaleRunWarning):
            run.refresh()
        clock.move(600)
        run.refresh()
        assert run.state == "running"
    assert LocalStore.children is children
    clock.move(30)  # the job waits in its own way before it tries again
    run.refresh()
    assert run.state == "running"
    clock.move(attempts.QUIET_S + 1)
    run.refresh()
    assert run.state == "crashed"
    with monkeypatch.context() as down:
        down.setattr(LocalStore, "children", _refuse)
        clock.move(1)
        with pytest.warns(mirror.StaleRunWarning):
            run.refresh()
        assert run.state == "crashed"


def _refuse(*_: object) -> None:
    raise mirror.StoreError("no way to host")


def test_a_reader_whose_clock_is_wrong_sees_that_a_job_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = layout.create_run(tmp_path / "x", info(host="elsewhere", pid=DEAD_PID))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    log.append(steps(0))
    run = open_run(tmp_path / "x")
    clock = Clock(monkeypatch)
    clock._now_s += 3600  # set ahead while the reader follows the run
    log.append(steps(1))
    run.refresh()
    run.refresh()
    assert (run.state, run.steps) == ("running", 2)
    clock.move(attempts.QUIET_S + 1)
    run.refresh()
    assert run.state == "crashed"
    log.close()
