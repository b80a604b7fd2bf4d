from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reader.runs import DEAD_PID, closing, evaluation, info, key, started, write_worker
from tests.store.records import record

from mothtrap.core.errors import StepUnavailableError, UnknownNameError
from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.runs import RunEnd
from mothtrap.core.steps import Mode
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.series.steps import StepState
from mothtrap.store import layout

AVAILABLE, UNAVAILABLE, NOT_YET = StepState.AVAILABLE, StepState.UNAVAILABLE, StepState.NOT_YET


def a_run(folder: Path, *workers: list[StepRecord], **changes: object) -> Run:
    attempt = layout.create_run(folder / "x", info(**changes))
    for records in workers:
        write_worker(attempt, *records)
    return open_run(folder / "x")


def steps(*numbers: int) -> list[StepRecord]:
    return [record(number) for number in numbers]


def member(rank: int, *, world_size: int = 2, pid: int | None = None) -> StepRecord:
    """Return the first record of a worker, which also identifies it."""
    start = WorkerStarted(
        step=0,
        rank=rank,
        world_size=world_size,
        pid=pid or os.getpid(),
        host=info().host,
        framework="torch",
        versions={},
    )
    return record(0, observations=(start,))


def test_steps_of_modes_and_of_the_job_translate_both_ways(tmp_path: Path) -> None:
    evaluations = [evaluation(2, 0), evaluation(2, 1), evaluation(4, 2)]
    run = a_run(tmp_path, [*steps(0, 1), *evaluations[:2], *steps(2, 3), evaluations[2]])
    timeline = run.timeline
    assert run.modes == (Mode.TRAIN, Mode.EVAL)
    assert run.steps_of(Mode.TRAIN).tolist() == [0, 1, 2, 3]
    assert run.steps_of(Mode.EVAL).tolist() == [2, 4]
    assert run.steps_of().tolist() == [0, 1, 2, 3, 4]
    assert [timeline.step_of(Mode.EVAL, n) for n in range(3)] == [2, 2, 4]
    assert timeline.step_of(Mode.TRAIN, 3) == 3
    assert timeline.keys_at(2) == (key(2, Mode.EVAL, 0), key(2, Mode.EVAL, 1), key(2))
    assert timeline.keys(Mode.EVAL) == tuple(item.key for item in evaluations)
    assert len(timeline.keys()) == 7
    with pytest.raises(StepUnavailableError, match="step 3 of mode eval: captured are 0 to 2"):
        timeline.step_of(Mode.EVAL, 3)
    with pytest.raises(StepUnavailableError, match="nothing was captured in it"):
        timeline.step_of(Mode.PREDICT, 0)


def test_modes_may_be_named_in_words(tmp_path: Path) -> None:
    run = a_run(tmp_path, [*steps(0), evaluation(1, 0), *steps(1)])
    assert run.steps_of("eval").tolist() == [1]
    assert run.status(1, "eval").key == key(1, Mode.EVAL, 0)
    assert run.tensor("layer1").history("l2", "eval").mode is Mode.EVAL
    assert [s.mode for s in run.scalars("loss", "eval")] == [Mode.EVAL]
    for ask in (run.steps_of, run.scalars, run.follow, run.timeline.keys):
        with pytest.raises(UnknownNameError, match=r"no mode 'evl' .did you mean 'eval'"):
            list(ask(mode="evl"))  # type: ignore[operator, arg-type, call-arg]


@pytest.mark.parametrize("mode", Mode)
def test_the_closing_record_is_of_no_step(tmp_path: Path, mode: Mode) -> None:
    end = closing(2)
    end = replace(end, key=key(2, mode, 0), summary_TF=end.summary_TF[:, :0])
    run = a_run(tmp_path, [*steps(0, 1), end], pid=DEAD_PID)
    assert run.steps_of().tolist() == [0, 1]
    assert run.modes == (Mode.TRAIN,)
    assert run.status(2).state is UNAVAILABLE
    assert [status.key.step for status in run.follow()] == [0, 1]


def test_facts_alone_are_of_no_step(tmp_path: Path) -> None:
    fact = Blind(step=2, what="x", reason="y")
    alone = replace(closing(2), key=key(2, Mode.PREDICT, 0), observations=(fact,))
    run = a_run(tmp_path, [*steps(0, 1), alone, closing(2)], pid=DEAD_PID)
    assert run.modes == (Mode.TRAIN,)
    assert run.steps_of().tolist() == [0, 1]
    assert fact in run.blind


def test_what_was_logged_after_the_last_step_is_kept_and_is_no_step(tmp_path: Path) -> None:
    late = replace(closing(2), scalars=(Scalar("accuracy", "", 0.5),))
    run = a_run(tmp_path, [*steps(0, 1), late], pid=DEAD_PID)
    (accuracy,) = run.scalars("accuracy")
    assert (accuracy.steps_S.tolist(), accuracy.values_S.tolist()) == ([2], [0.5])
    assert run.steps_of().tolist() == [0, 1]
    assert run.steps == 2
    assert run.status(2).state is UNAVAILABLE
    assert [status.key.step for status in run.follow()] == [0, 1]


@pytest.mark.parametrize("step", [1.5, "1", None])
def test_a_step_is_a_whole_number(tmp_path: Path, step: Any) -> None:
    run = a_run(tmp_path, steps(0, 1))
    for ask in (run.status, run.wait_for, run.range, run.tensor("layer1").at):
        with pytest.raises(TypeError, match=f"a step is a whole number or a StepKey, not {step!r}"):
            ask(step)
    assert run.status(np.int64(1)).key == key(1)


def test_a_view_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got begin 3 and end 1"):
        a_run(tmp_path, steps(0, 1)).range(3, 1)


def test_a_running_job_has_steps_still_to_come(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0, 1, 3))
    assert [run.status(step).state for step in range(5)] == [
        AVAILABLE,
        AVAILABLE,
        UNAVAILABLE,  # dropped, because a later one exists
        AVAILABLE,
        NOT_YET,
    ]
    assert run.status(3).complete
    assert run.status(3).key == key(3)


def test_before_the_first_worker_every_step_is_still_to_come(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert run.status(0).state is NOT_YET
    layout.write_end(tmp_path / "x" / "1", RunEnd(exit_code=1, ended_s=1.0))
    run.refresh()
    assert run.status(0).state is UNAVAILABLE


@pytest.mark.parametrize("how", ["finished", "crashed"])
def test_after_the_end_nothing_comes(tmp_path: Path, how: str) -> None:
    ending = [closing(2)] if how == "finished" else []
    run = a_run(tmp_path, [*steps(0, 1), *ending], pid=DEAD_PID)
    assert run.state == how
    assert [run.status(step).state for step in (0, 1, 2)] == [AVAILABLE, AVAILABLE, UNAVAILABLE]


def test_a_step_waits_for_the_slower_worker(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(1, 2)], [member(1), *steps(1)])
    assert [run.status(step).state for step in range(4)] == [AVAILABLE, AVAILABLE, NOT_YET, NOT_YET]
    assert (run.status(2).workers, run.status(2).missing) == ((0,), (1,))


def test_a_worker_that_has_not_begun_is_waited_for_at_the_start_alone(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(*range(1, 5))])
    assert run.status(0).state is NOT_YET
    assert run.status(0).missing == (1,)
    later = a_run(tmp_path / "later", [member(0), *steps(*range(1, 12))])
    assert later.status(0).state is AVAILABLE


def test_where_one_worker_is_captured_one_is_enough(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(1)], config={"workers": "rank0"})
    assert run.status(1).complete


def test_a_worker_that_skipped_a_step_is_missing_from_it(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(1, 2)], [member(1), *steps(2)])
    status = run.status(1)
    assert (status.state, status.workers, status.missing) == (AVAILABLE, (0,), (1,))
    assert not status.complete


def test_no_one_waits_for_the_dead(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(1, 2)], [member(1, pid=DEAD_PID)])
    status = run.status(2)
    assert (status.state, status.missing) == (AVAILABLE, (1,))
    assert run.status(3).state is NOT_YET


def test_a_worker_that_closed_early_is_not_waited_for(tmp_path: Path) -> None:
    run = a_run(tmp_path, [member(0), *steps(1, 2)], [member(1), *steps(1), closing(2)])
    assert run.status(2).state is AVAILABLE


def test_a_restart_brings_its_steps_again(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0, 1, 2), pid=DEAD_PID)
    second = layout.create_attempt(tmp_path / "x", info(attempt=2))
    write_worker(second, record(2, observations=(started(os.getpid()),)))
    run.refresh()
    assert [run.status(step).attempt for step in (0, 1, 2)] == [1, 1, 2]
    assert run.status(3).state is NOT_YET
    assert run.steps_of().tolist() == [0, 1, 2]


def test_a_view_of_some_steps_shows_no_other(tmp_path: Path) -> None:
    run = a_run(tmp_path, [*steps(0, 1, 2), evaluation(3, 0), *steps(3, 4, 5)])
    view = run.range(1, 4)
    assert view.steps_of(Mode.TRAIN).tolist() == [1, 2, 3]
    assert view.steps_of(Mode.EVAL).tolist() == [3]
    assert (view.steps, view.path) == (4, run.path)
    assert view.status(4).state is UNAVAILABLE
    assert view.status(0).state is UNAVAILABLE
    assert view.scalars("loss", Mode.TRAIN)[0].steps_S.tolist() == [1, 2, 3]
    assert view.stats("gradient")["l2"].steps_S.tolist() == [1, 2, 3]
    assert view.tensor("layer1").history("l2").steps_S.tolist() == [1, 2, 3]
    assert [item.key.step for item in view.records()] == [1, 2, 3, 3]
    assert view.range(2, 9).steps_of().tolist() == [2, 3]
    assert set(view.table("steps").column("step").to_pylist()) == {1, 2, 3}
    assert len(run.steps_of()) == 6


def test_a_view_is_of_the_same_files(tmp_path: Path) -> None:
    run = a_run(tmp_path, steps(0, 1))
    view = run.range(1)
    write_worker(run.path / "1", *steps(0, 1, 2, 3))
    run.refresh()
    assert view.steps_of().tolist() == [1, 2, 3]
    assert view.workers == (0, 1)
