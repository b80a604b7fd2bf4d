"""Overhead is reported with its reason where it is above its budget."""

from __future__ import annotations

import pytest

from mothtrap.core.runs import Overhead
from mothtrap.report.cost import cost_in_words

SHORT = Overhead(ratio=0.5, seconds=0.6, capture_seconds=0.1, budget=0.02)


@pytest.mark.parametrize(
    ("cost", "steps", "said"),
    [
        (
            Overhead(ratio=0.013, seconds=0.52, budget=0.02),
            120,
            "1.3 % of the training time (0.52 s)",
        ),
        (
            SHORT,
            400,
            "50.0 % of the training time (0.60 s: hooks 0.50 s, statistics 0.10 s); above the "
            "budget of 2 %, because steps of 3 ms are too short for a fixed cost of 1.2 ms",
        ),
        (
            Overhead(ratio=0.01, seconds=0.4, asked_ratio=0.2, asked_seconds=8.0, budget=0.02),
            120,
            "1.0 % of the training time (0.40 s); captures that you requested took 20.0 % (8.00 s) "
            "more",
        ),
        (
            Overhead(ratio=0.03, seconds=0.3, capture_seconds=0.2, budget=0.02),
            400,
            "3.0 % of the training time (0.30 s: hooks 0.10 s, statistics 0.20 s); above the "
            "budget of 2 %, because the first steps and the NaN check at each step are never "
            "skipped",
        ),
        (
            Overhead(ratio=1.25, seconds=0.5, budget=0.02),
            3,
            "more than the training time of 0.40 s (0.50 s); above the budget of 2 %, because the "
            "first steps cost more, and there were only 3",
        ),
        (
            Overhead(
                ratio=0.02, seconds=0.6, budget=0.02, shed=("copies: 9 of 9", "means: 1 of 9")
            ),
            400,
            "2.0 % of the training time (0.60 s); skipped to stay in the budget: copies: 9 of 9; "
            "means: 1 of 9",
        ),
        (
            Overhead(ratio=0.02, seconds=0.6, budget=0.02, shed=tuple("abcdef")),
            400,
            "2.0 % of the training time (0.60 s); skipped to stay in the budget: a; b; c; d; "
            "and 2 more (mothtrap show --format json --all lists all)",
        ),
        (
            Overhead(ratio=0.02, seconds=0.6, budget=0.02, unwatched=7840, shed=("a",)),
            10_000,
            "2.0 % of the training time (0.60 s); 7,840 of 10,000 steps were too short to "
            "observe (set overhead = 0 to observe every step); skipped to stay in the budget: a",
        ),
        (
            Overhead(ratio=0.03, seconds=0.6, budget=0.02, unwatched=7840),
            10_000,
            "3.0 % of the training time (0.60 s); above the budget of 2 %, because each of the "
            "first steps is observed; 7,840 of 10,000 steps were too short to observe (set "
            "overhead = 0 to observe every step)",
        ),
        (Overhead(ratio=0.5, seconds=0.6), 400, "50.0 % of the training time (0.60 s)"),
    ],
)
def test_cost_in_words(cost: Overhead, steps: int, said: str) -> None:
    assert cost_in_words(cost, steps) == said


def test_all_that_made_the_job_longer_is_named() -> None:
    cost = Overhead(
        ratio=0.01,
        seconds=0.4,
        added_seconds=2.0,
        start_seconds=0.3,
        beside_seconds=0.5,
        close_seconds=0.1,
        launcher_seconds=0.7,
    )
    assert cost_in_words(cost, 400).endswith(
        "; mothtrap added 2.00 s in total: imports 0.30 s, threads 0.50 s, closing 0.10 s, "
        "launcher 0.70 s"
    )
