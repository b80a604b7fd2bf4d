"""End of a job, in a word."""

from __future__ import annotations

import signal

import pytest
from tests.report.faulty_run import HandMadeRun

from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.runs import RunEnd
from mothtrap.report.ending import ending_word, how_it_ended


def ended(**about: object) -> WorkerEnded:
    return WorkerEnded(step=9, steps=9, own_s=0.0, wall_s=1.0, **about)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (HandMadeRun(state="running"), "running"),
        (HandMadeRun(), "finished"),
        (HandMadeRun(end=RunEnd(exit_code=0, ended_s=1.0)), "finished"),
        (HandMadeRun(end=RunEnd(exit_code=7, ended_s=1.0)), "exit code 7"),
        (HandMadeRun(end=RunEnd(exit_code=-signal.SIGINT, ended_s=1.0)), "interrupted"),
        (HandMadeRun(observed=(ended(exception="KeyboardInterrupt: "),)), "interrupted"),
        (HandMadeRun(end=RunEnd(exit_code=-signal.SIGKILL, ended_s=1.0)), "SIGKILL"),
        (HandMadeRun(end=RunEnd(exit_code=3, ended_s=1.0), stopped_at=5), "stopped"),
        (HandMadeRun(state="crashed", end=RunEnd(exit_code=1, ended_s=1.0)), "crashed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_word_says_how_a_job_ended(run: HandMadeRun, word: str) -> None:
    assert ending_word(run) == word  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lost", "seen", "words"),
    [
        ((), True, "ended with exit code 1"),
        ((1,), True, "ended with exit code 1; rank 1 was lost"),
        ((1, 0), True, "ended with exit code 1; rank 1 was lost first"),
        ((1, 0), False, "ended with exit code 1; ranks 0, 1 were lost"),
        (
            tuple(range(9)),
            False,
            "ended with exit code 1; ranks 0, 1, 2, 3, 4, 5, 6, 7 ... were lost",
        ),
    ],
)
def test_a_worker_is_said_to_be_lost_first_only_where_that_was_seen(
    lost: tuple[int, ...], seen: bool, words: str
) -> None:
    end = RunEnd(exit_code=1, ended_s=1.0, lost=lost, order_seen=seen)
    assert how_it_ended(HandMadeRun(state="crashed", end=end)) == words  # type: ignore[arg-type]
