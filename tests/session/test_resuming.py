from __future__ import annotations

from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, info
from tests.store.records import record

from mothtrap.core.errors import RunExistsError
from mothtrap.core.observations import AnyObservation, Resumed, WeightsSaved
from mothtrap.session.resuming import Resumption, next_attempt, open_attempt, own_attempt
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


def attempt(
    folder: Path, number: int, *seen: AnyObservation, rank: int = 0, pid: int = DEAD_PID
) -> Path:
    """An attempt with three steps of one worker."""
    run = folder / "job"
    made = layout.attempt_folder(run, number)
    if number == 1 and not run.exists():
        layout.create_run(run, info(pid=pid))
    elif not made.exists():
        layout.create_attempt(run, info(pid=pid, attempt=number))
    log = WorkerLog(layout.claim_worker(made, rank)[1])
    log.append([record(step) for step in range(2)] + [record(2, observations=seen)])
    log.close()
    return made


def saved(step: int, digest: str) -> WeightsSaved:
    return WeightsSaved(step=step, root="Net", digest=digest)


def test_a_restart_has_the_attempt_of_its_number(tmp_path: Path) -> None:
    opened = tmp_path / "job" / "3"
    assert own_attempt(opened, {}) == opened
    assert own_attempt(opened, {"TORCHELASTIC_RESTART_COUNT": "0"}) == opened
    assert own_attempt(opened, {"TORCHELASTIC_RESTART_COUNT": "2"}).name == "5"


def test_the_first_worker_to_come_opens_the_attempt_for_all(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1)
    own = first.parent / "2"
    assert open_attempt(first, own) == open_attempt(first, own) == own
    found = layout.read_info(own)
    assert found is not None
    assert (found.attempt, found.id, found.pid) == (2, "digits", DEAD_PID)
    assert layout.attempts(first.parent) == [1, 2]


def test_weights_tell_the_step_before_the_optimizer_does(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1, saved(1, "a"), saved(2, "b"), saved(2, "same"))
    resume = Resumption(first, first.parent / "2", lambda: 0)
    assert resume({"Net": "a"}, 2) == (1, "its weights are those saved after 1 steps")
    assert resume({"Net": "b", "Other": "a"}, None)[0] == 2
    assert resume({"Other": "a"}, 2) == (2, "its optimizer has made 2 steps")


def test_without_evidence_a_restart_began_again_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1)
    second = attempt(tmp_path, 2, Resumed(step=3, evidence="it was asked to"))
    assert Resumption(first, first.parent / "2", lambda: 0)({}, None)[0] == 0
    assert Resumption(second, second, lambda: 0)({}, None)[0] == 3
    assert Resumption(second, second.parent / "3", lambda: 0)({}, None)[0] == 3


def test_a_worker_that_was_not_there_before_asks_the_others(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1, saved(1, "of 0"))
    attempt(tmp_path, 1, saved(2, "of 1"), rank=1)
    own = first.parent / "2"
    assert Resumption(first, own, lambda: 5)({"Net": "of 0"}, None)[0] == 1
    assert Resumption(first, own, lambda: 1)({"Net": "of 0"}, None)[0] == 0


def test_a_run_that_still_runs_is_not_resumed(tmp_path: Path) -> None:
    import os

    running = attempt(tmp_path, 1, pid=os.getpid())
    with pytest.raises(RunExistsError, match="is still running"):
        next_attempt(running.parent)
