from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, closing, evaluation, info, key, write_worker
from tests.reader.series.test_steps import a_run, member, steps
from tests.store.records import record

from mothtrap.core.errors import StepNotYetError, StepUnavailableError
from mothtrap.core.runs import RunEnd
from mothtrap.core.steps import Mode
from mothtrap.reader.run import open_run
from mothtrap.reader.series import completion
from mothtrap.store import layout, mirror
from mothtrap.store.worker_log import WorkerLog

WRITER = """
import os, sys, time
from pathlib import Path
from mothtrap.store import layout, mirror
from mothtrap.store.worker_log import WorkerLog
from tests.reader.runs import closing, info, started
from tests.store.records import record
attempt = layout.create_run(Path(sys.argv[1]), info())
log = WorkerLog(layout.claim_worker(attempt)[1], roll_bytes=20_000)
log.append([record(0, observations=(started(os.getpid()),), wall_s=time.time())])
print("ready", flush=True)
for line in sys.stdin:
    step = int(line)
    if step < 0:
        break
    log.append([record(step, wall_s=time.time())])
if sys.argv[2] == "close":
    log.append([closing(200)])
    log.close()
else:
    os.kill(os.getpid(), 9)
"""


def start(folder: Path, ending: str) -> subprocess.Popen[str]:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), ending],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout
    assert writer.stdout.readline() == "ready\n"
    return writer


def tell(writer: subprocess.Popen[str], step: int) -> None:
    assert writer.stdin
    writer.stdin.write(f"{step}\n")
    writer.stdin.flush()


def end(writer: subprocess.Popen[str]) -> int:
    assert writer.stdin
    assert writer.stdout
    writer.stdin.close()
    writer.stdout.close()
    return writer.wait()


@pytest.mark.parametrize(("ending", "state"), [("close", "finished"), ("kill", "crashed")])
def test_steps_come_as_they_are_written_until_the_end(
    tmp_path: Path, ending: str, state: str
) -> None:
    writer = start(tmp_path / "x", ending)
    run = open_run(tmp_path / "x")
    got, delays_s = [], []
    for status in run.follow():
        delays_s.append(time.time() - run.table("steps").column("wall_s")[-1].as_py())
        got.append(status.key.step)
        assert status.complete
        # What was reported can be requested.
        assert run.scalars("loss")[0].steps_S[-1] == status.key.step
        assert run.tensor("layer1").statistics(status.key.step)["l2"] == 22.0 + status.key.step
        tell(writer, len(got) if len(got) < 40 else -1)
    assert got == list(range(40))
    assert run.state == state
    assert sorted(delays_s)[20] < 0.1  # at least half of them: the machine may be busy
    assert end(writer) == (0 if ending == "close" else -signal.SIGKILL)


def test_a_step_comes_once_the_slowest_worker_has_it(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(1, 2)])
    log = WorkerLog(layout.claim_worker(run.path / "1")[1])
    log.append([member(1), record(1)])
    following = run.follow()
    got = [next(following), next(following)]
    log.append([record(3)])
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    got += following
    assert [(s.key.step, s.workers, s.missing) for s in got] == [
        (0, (0, 1), ()),
        (1, (0, 1), ()),
        (2, (0,), (1,)),
        (3, (1,), (0,)),
    ]
    log.close()


def test_evaluations_come_in_their_place(tmp_path: Path) -> None:
    records = [record(0), evaluation(1, 0), evaluation(1, 1), record(1), closing(2)]
    run = a_run(tmp_path, records, pid=DEAD_PID)
    everything = [key(0), key(1, Mode.EVAL, 0), key(1, Mode.EVAL, 1), key(1)]
    assert [status.key for status in run.follow()] == everything
    assert [status.key for status in run.follow(Mode.EVAL)] == everything[1:3]
    assert [status.key for status in run.range(1).follow(Mode.TRAIN)] == [key(1)]


def test_a_worker_is_reported_once_for_an_evaluation_of_several_records(tmp_path: Path) -> None:
    first = [member(0), evaluation(1, 0), evaluation(1, 0), record(1), closing(2)]
    run = a_run(tmp_path, first, [member(1), record(1), closing(2)], pid=DEAD_PID)
    got = [(status.key.mode, status.workers, status.missing) for status in run.follow()]
    assert got == [("train", (0, 1), ()), ("eval", (0,), (1,)), ("train", (0, 1), ())]


def test_evaluations_of_one_worker_wait_for_the_others_to_pass_them(tmp_path: Path) -> None:
    first = [member(0), evaluation(1, 0), record(1)]
    run = a_run(tmp_path, first, [member(1), record(1)])
    following = run.follow()
    got = [next(following) for _ in range(3)]
    assert [(s.key, s.workers) for s in got] == [
        (key(0), (0, 1)),
        (key(1, Mode.EVAL, 0), (0,)),
        (key(1), (0, 1)),
    ]


def test_a_restart_comes_after_what_it_repeats(tmp_path: Path) -> None:
    a_run(tmp_path, steps(0, 1, 2), pid=DEAD_PID)
    second = layout.create_attempt(tmp_path / "x", info(attempt=2, pid=DEAD_PID))
    write_worker(second, *steps(2, 3), closing(4))
    got = [(s.attempt, s.key.step) for s in open_run(tmp_path / "x").follow()]
    assert got == [(1, 0), (1, 1), (1, 2), (2, 2), (2, 3)]


def test_a_view_is_followed_to_its_end(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0, 1, 2, 3))
    assert [status.key.step for status in run.range(1, 3).follow()] == [1, 2]


def test_waiting_ends_when_the_step_is_there(tmp_path: Path) -> None:
    writer = start(tmp_path / "x", "close")
    run = open_run(tmp_path / "x")
    assert run.wait_for(0).complete
    tell(writer, 1)
    assert run.wait_for(1).key == key(1)
    tell(writer, 2)
    assert run.wait_for(2, timeout_s=60).complete  # waiting leaves the run live
    assert run.steps == 3
    tell(writer, -1)
    with pytest.raises(StepUnavailableError, match=r"step 3 .* the job has ended"):
        run.wait_for(3)
    assert run.state == "finished"
    assert end(writer) == 0


def test_waiting_for_what_will_not_come_is_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0, 2))
    with pytest.raises(StepUnavailableError, match="the job has passed it; 2 steps were captured"):
        run.wait_for(1)
    with pytest.raises(StepUnavailableError, match="outside of this view: it shows 0 to 1"):
        run.range(0, 2).wait_for(2)
    with pytest.raises(StepNotYetError, match="was not recorded within 0 s"):
        run.wait_for(3, timeout_s=0)
    with run.frozen(), pytest.raises(StepNotYetError, match="frozen"):
        run.wait_for(3)


def test_a_frozen_run_stays_as_it_is_and_thaws(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0))
    log = WorkerLog(layout.claim_worker(run.path / "1")[1])

    def nested() -> None:
        with run.frozen(), run.range(0, 9).frozen():
            log.append(steps(0, 1))
            run.refresh()
            assert [status.key.step for status in run.follow()] == [0]
            assert run.steps == 1
            raise ZeroDivisionError

    with run.frozen() as same:
        assert same is run
        with pytest.raises(ZeroDivisionError):
            nested()
        run.refresh()
        assert run.steps == 1
    run.refresh()
    assert run.steps == 2
    log.close()


def test_numbers_read_late_are_of_the_same_moment(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    log = WorkerLog(layout.claim_worker(run.path / "1")[1])
    log.append(steps(0))
    run.refresh()
    log.append(steps(1))
    assert run.stats("gradient")["l2"].steps_S.tolist() == [0]
    assert run.scalars("loss")[0].steps_S.tolist() == [0]
    run.refresh()
    assert run.stats("gradient")["l2"].steps_S.tolist() == [0, 1]
    assert run.scalars("loss")[0].steps_S.tolist() == [0, 1]
    log.close()


def test_processes_are_not_asked_for_at_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, steps(0))
    asked: list[bool] = []
    refresh = type(run._files).refresh

    def counted(files: object, *, judge: bool = True) -> None:
        asked.append(judge)
        refresh(run._files, judge=judge)
        if len(asked) == 20:
            layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))

    monkeypatch.setattr(type(run._files), "refresh", counted)
    monkeypatch.setattr(completion, "JUDGE_EVERY_S", 1e9)
    assert len(list(_unhurried(run.follow(poll_s=0)))) == 1
    assert sum(asked) == 1


def _unhurried(following: Iterator[object]) -> Iterator[object]:
    yield from following


def test_steps_of_a_process_that_no_one_announced_are_not_told_again(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0, 1, 2))
    following = run.follow()
    got = [next(following) for _ in range(3)]
    log = WorkerLog(layout.claim_worker(run.path / "1")[1])
    log.append([*steps(0, 1, 2), record(3)])
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    got += following
    assert [status.key.step for status in got] == [0, 1, 2, 3]
    assert [status.workers for status in got] == [(0,), (0,), (0,), (1,)]
    assert run.status(1).workers == (0, 1)  # the reader that has it by now
    log.close()


def test_a_worker_that_begins_late_tells_no_step_again(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(*range(1, 12))])
    following = run.follow()
    got = [next(following) for _ in range(12)]
    log = WorkerLog(layout.claim_worker(run.path / "1")[1])
    log.append([member(1), *steps(*range(1, 13))])
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    got += following
    assert [status.key.step for status in got] == list(range(13))
    log.close()


def test_modes_of_one_step_come_whatever_their_order(tmp_path: Path) -> None:
    prediction = record(1, key=key(1, Mode.PREDICT, 0), optimizers=())
    run = a_run(tmp_path, [record(0), prediction])
    following = run.follow()
    got = [next(following), next(following)]
    write_worker(run.path / "1", evaluation(1, 0), record(1))
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    got += following
    assert [s.key.mode for s in got] == [Mode.TRAIN, Mode.PREDICT, Mode.EVAL, Mode.TRAIN]


def test_what_a_job_sent_last_before_it_ended_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is gone before the next poll of the store is due."""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "FETCH_EVERY_S", 60.0)
    launcher = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    attempt = layout.create_run(tmp_path / "runs" / "x", info(pid=launcher.pid))
    log = WorkerLog(layout.claim_worker(attempt)[1], roll_bytes=1)
    log.append([record(0)])
    followed = open_run((tmp_path / "runs" / "x").as_uri()).follow()
    assert next(followed).key.step == 0
    log.append([record(1)])
    log.append([closing(2)])
    log.close()
    launcher.communicate(b"\n")
    assert [status.key.step for status in followed] == [1]
