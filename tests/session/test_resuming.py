from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, info
from tests.store.records import record

from mothtrap.core.errors import RunExistsError
from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import SplitDrawn
from mothtrap.core.facts.workers import Resumed, WeightsSaved
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.session.resuming import (
    Resumption,
    earlier_attempt,
    launcher_of,
    next_attempt,
    open_attempt,
    own_attempt,
)
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


def attempt(
    folder: Path,
    number: int,
    *seen: Fact,
    rank: int = 0,
    pid: int = DEAD_PID,
    before: Sequence[StepRecord] = (),
) -> Path:
    """Store an attempt with three steps of one worker and the records `before` them."""
    run = folder / "job"
    made = layout.attempt_folder(run, number)
    if number == 1 and not run.exists():
        layout.create_run(run, info(pid=pid))
    elif not made.exists():
        layout.create_attempt(run, info(pid=pid, attempt=number))
    log = WorkerLog(layout.claim_worker(made, rank)[1])
    log.append([*before, record(0), record(1), record(2, observations=seen)])
    log.close()
    return made


def evaluated(step: int, mode_step: int) -> StepRecord:
    """Return a forward of an evaluation."""
    return record(step, key=StepKey(step=step, mode=Mode.EVAL, mode_step=mode_step), optimizers=())


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
    by_weights = resume({"Net": "a"}, 2)
    assert (by_weights.step, by_weights.loaded) == (1, True)
    assert by_weights.evidence == "its weights are those saved after 1 steps"
    assert resume({"Net": "b", "Other": "a"}, None).step == 2
    by_optimizer = resume({"Other": "a"}, 2)
    assert (by_optimizer.step, by_optimizer.loaded) == (2, False)
    assert by_optimizer.evidence == "its optimizer has taken 2 steps"


def test_evaluations_are_counted_on_from_those_that_still_count(tmp_path: Path) -> None:
    """Those of an attempt after the step at which the next one began were repeated."""
    first = attempt(tmp_path, 1, before=[evaluated(1, 0), evaluated(1, 1), evaluated(3, 2)])
    again = Resumed(step=1, evidence="", evaluations=2)
    attempt(tmp_path, 2, before=[record(0, observations=(again,)), evaluated(3, 2)])
    third = first.parent / "3"
    for own_steps, wanted in ((1, 2), (2, 2), (3, 3)):
        assert Resumption(first, first.parent / "2", lambda: 0)({}, own_steps).evaluations == wanted
        assert Resumption(third, third, lambda: 0)({}, own_steps).evaluations == wanted


def test_without_evidence_a_restart_began_again_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1)
    second = attempt(tmp_path, 2, Resumed(step=3, evidence="it was asked to"))
    assert Resumption(first, first.parent / "2", lambda: 0)({}, None).step == 0
    assert Resumption(second, second, lambda: 0)({}, None).step == 3
    assert Resumption(second, second.parent / "3", lambda: 0)({}, None).step == 3


def test_a_worker_that_was_not_there_before_asks_the_others(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1, saved(1, "of 0"))
    attempt(tmp_path, 1, saved(2, "of 1"), rank=1)
    own = first.parent / "2"
    assert Resumption(first, own, lambda: 5)({"Net": "of 0"}, None).step == 1
    assert Resumption(first, own, lambda: 1)({"Net": "of 0"}, None).step == 0


def test_a_run_that_still_runs_is_not_resumed(tmp_path: Path) -> None:
    import os

    running = attempt(tmp_path, 1, pid=os.getpid())
    with pytest.raises(RunExistsError, match="is still running"):
        next_attempt(running.parent)


STARTED_AGAIN = {
    "TORCHELASTIC_RESTART_COUNT": "1",
    "LOCAL_WORLD_SIZE": "2",
    "WORLD_SIZE": "2",
}
"""Environment that torchrun gives the workers of a one-machine job at its second start."""


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        (STARTED_AGAIN, True),
        ({**STARTED_AGAIN, "TORCHELASTIC_RESTART_COUNT": "0"}, True),
        ({**STARTED_AGAIN, "WORLD_SIZE": "4"}, False),  # others start elsewhere
        ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, False),
        ({}, False),
    ],
)
def test_who_starts_a_process_again_is_known_of_a_job_of_one_machine(
    environ: dict[str, str], known: bool
) -> None:
    assert bool(launcher_of(environ)) == known


def test_the_attempt_of_before_is_the_last_that_the_same_launcher_started(tmp_path: Path) -> None:
    mine = launcher_of(STARTED_AGAIN)
    layout.create_run(tmp_path / "other", info(launcher="host/1/2"))
    layout.create_run(tmp_path / "alone", info())
    assert earlier_attempt(tmp_path, None, STARTED_AGAIN) is None
    first = layout.create_run(tmp_path / "job", info(launcher=mine))
    for name in (None, "job"):
        assert earlier_attempt(tmp_path, name, STARTED_AGAIN) == first
    assert earlier_attempt(tmp_path, "other", STARTED_AGAIN) is None
    assert earlier_attempt(tmp_path, "nothing", STARTED_AGAIN) is None
    begun = {**STARTED_AGAIN, "TORCHELASTIC_RESTART_COUNT": "0"}
    assert earlier_attempt(tmp_path, None, begun) is None
    # The first rank has already opened the next attempt, which is not an earlier one.
    again = layout.create_attempt(first.parent, info(attempt=2, launcher=mine, restarts=1))
    assert earlier_attempt(tmp_path, None, STARTED_AGAIN) == first
    third = {**STARTED_AGAIN, "TORCHELASTIC_RESTART_COUNT": "2"}
    assert earlier_attempt(tmp_path, None, third) == again
    layout.create_run(tmp_path / "job-2", info(launcher=mine))
    assert earlier_attempt(tmp_path, None, STARTED_AGAIN) is None  # it is not known which of them
    assert earlier_attempt(tmp_path, "job", STARTED_AGAIN) == first


def test_splits_of_earlier_attempts_go_along_where_the_weights_do(tmp_path: Path) -> None:
    split = SplitDrawn(
        step=1,
        data="TensorDataset",
        size=10,
        trained="r0,8",
        evaluated="r8,2",
        eval_loader="loader 2",
    )
    first = attempt(tmp_path, 1, saved(2, "a"), split)
    resume = Resumption(first, first.parent / "2", lambda: 0)
    assert resume({"Net": "a"}, None).splits == (split,)
    # it loaded nothing, so it started from the beginning
    assert resume({"Net": "b"}, None).splits == ()


def test_the_losses_before_the_step_at_which_a_job_goes_on_are_kept(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1, saved(2, "a"))
    resume = Resumption(first, first.parent / "2", lambda: 0)
    assert resume({"Net": "a"}, None).losses == {"main": (1.0, 0.5)}
    assert resume({}, None).losses == {}  # it started from the beginning
    again = Resumed(step=1, evidence="")
    attempt(tmp_path, 2, before=[record(0, observations=(again,))])
    third = first.parent / "3"
    losses = Resumption(third, third, lambda: 0)({}, 3).losses["main"]
    assert losses == (1.0, 1.0, 1.0, 0.5, 1 / 3)  # the steps after 1 were repeated


def test_the_first_and_the_last_rates_of_the_job_are_kept(tmp_path: Path) -> None:
    layout.create_run(tmp_path / "job", info(pid=DEAD_PID))
    first = layout.attempt_folder(tmp_path / "job", 1)
    rates = [(Scalar("lr", "Adam", 0.1 * (step + 1)),) for step in range(3)]
    steps = [record(step, scalars=scalars) for step, scalars in enumerate(rates)]
    log = WorkerLog(layout.claim_worker(first, 0)[1])
    log.append([*steps[:2], record(2, scalars=rates[2], observations=(saved(2, "a"),))])
    log.close()
    resume = Resumption(first, first.parent / "2", lambda: 0)
    continued = resume({"Net": "a"}, None)
    assert continued.first_rates == {"Adam": (0.1, 0.2)}
    assert continued.last_rates == {"Adam": 0.2}
    assert resume({}, 2).first_rates == {}
