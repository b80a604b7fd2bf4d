"""Valid steps of each attempt, after a later one has repeated some of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, closing, evaluation, info, key, write_worker
from tests.store.records import record

from mothtrap.core.errors import StepUnavailableError
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunEnd
from mothtrap.core.steps import Mode
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout


def attempts(folder: Path, *several: list[list[StepRecord]]) -> Run:
    """Store a run of several attempts with the given records of their workers."""
    for number, workers in enumerate(several, 1):
        about = info(attempt=number, pid=DEAD_PID)
        make = layout.create_run if number == 1 else layout.create_attempt
        path = make(folder / "x", about)
        for records in workers:
            write_worker(path, *records)
    return open_run(folder / "x")


def steps(*numbers: int) -> list[StepRecord]:
    return [record(number) for number in numbers]


def resumed(folder: Path) -> Run:
    """Evaluated after step 3, saved, preempted; resumed at 4; step 4 had been begun."""
    first = [*steps(0, 1, 2, 3), evaluation(4, 0), evaluation(4, 1), *steps(4), evaluation(5, 2)]
    again = record(4, defined=record(0).defined)
    return attempts(folder, [first], [[again, *steps(5), evaluation(6, 0), closing(6)]])


def test_the_evaluation_before_a_restart_counts(tmp_path: Path) -> None:
    run = resumed(tmp_path)
    (losses,) = run.scalars("loss", "eval")
    assert losses.steps_S.tolist() == [4, 4, 6]
    assert run.scalars("loss", "eval", worker="merged")[0].steps_S.tolist() == [4, 4, 6]
    assert run.scalars("loss", "train")[0].steps_S.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.timeline.keys_at(4) == (key(4, Mode.EVAL, 0), key(4, Mode.EVAL, 1), key(4))
    assert run.status(4, "eval").attempt == 1
    assert run.status(4).attempt == 2
    assert run.stats("gradient", mode=Mode.EVAL)["l2"].steps_S.tolist() == [4, 4, 6]


def test_an_evaluation_that_a_later_attempt_did_again_is_the_later_ones(tmp_path: Path) -> None:
    first = [*steps(0, 1), evaluation(2, 7), *steps(2)]
    run = attempts(tmp_path, [first], [[evaluation(2, 0), *steps(2, 3), closing(4)]])
    assert run.timeline.keys("eval") == (key(2, Mode.EVAL, 0),)


def test_where_attempts_count_evaluations_alike_none_is_guessed(tmp_path: Path) -> None:
    timeline = resumed(tmp_path).timeline
    assert timeline.step_of("eval", 1) == 4
    with pytest.raises(StepUnavailableError, match=r"1 \(step 4\), of attempt 2 \(step 6\)"):
        timeline.step_of("eval", 0)
    assert [timeline.step_of("eval", 0, attempt=number) for number in (1, 2)] == [4, 6]
    with pytest.raises(StepUnavailableError, match="no step 1 of mode eval in attempt 2"):
        timeline.step_of("eval", 1, attempt=2)


def test_abandoned_steps_of_a_worker_that_is_gone_do_not_count(tmp_path: Path) -> None:
    three = [steps(0, 1, 2, 3), steps(0, 1, 2, 3), steps(0, 1, 2)]
    two = [[*steps(2, 3), closing(4)]] * 2
    run = attempts(tmp_path, three, two)
    assert run.workers == (0, 1, 2)
    assert run.scalars("loss", worker=2)[0].steps_S.tolist() == [0, 1]
    assert run.scalars("loss", worker=0)[0].steps_S.tolist() == [0, 1, 2, 3]
    rows = run.table("steps").to_pydict()
    told = sorted(zip(rows["step"], rows["worker"], rows["attempt"], strict=True))
    assert told == [
        *((step, worker, 1) for step in (0, 1) for worker in (0, 1, 2)),
        *((step, worker, 2) for step in (2, 3) for worker in (0, 1)),
    ]


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_a_run_whose_end_cannot_be_read_has_ended_all_the_same(
    tmp_path: Path, damage: bytes | None
) -> None:
    """Its description and its numbers are readable, and no reader waits for more."""
    run = attempts(tmp_path, [[*steps(0, 1), closing(2)]])
    end = run.path / "1" / "end.json"
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    end.write_bytes(end.read_bytes()[:-9] if damage is None else damage)
    found = open_run(run.path)
    assert found.state == "finished"
    assert found.info is not None
    assert any("end.json cannot be read" in text for text in found.damage)
    assert [status.key.step for status in found.follow()] == [0, 1]


@pytest.mark.parametrize("gone", [True, False])
def test_numbers_of_a_worker_without_events_are_said_to_be_lost(tmp_path: Path, gone: bool) -> None:
    run = attempts(tmp_path, [[*steps(0, 1), closing(2)]])
    (events,) = (run.path / "1" / "w0").glob("events-*.arrow")
    events.unlink() if gone else events.write_bytes(b"")
    found = open_run(run.path)
    assert found.steps == 0
    assert any(
        "w0: the events that assign its numbers to steps are lost" in text for text in found.damage
    )
