"""Steps, time and money after the onset of a finding, and the weights saved before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.report.faulty_run import HandMadeRun, exploding

from mothtrap.core.facts.record import CheckpointSaved
from mothtrap.core.runs import RunInfo
from mothtrap.report.aftermath import aftermaths, clause_lines, in_words, saved_in_words
from mothtrap.report.style import PLAIN


@dataclass(frozen=True)
class Commits:
    steps: Any
    wall_s: Any

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class View:
    commits: Commits


@dataclass(frozen=True)
class Part:
    view: View


@dataclass(frozen=True, kw_only=True)
class Timed(HandMadeRun):
    """A run of 40,000 steps, each of 1.116 s, in two attempts."""

    def parts(self) -> Any:
        first = np.arange(0, 30_000, 10)
        second = np.arange(25_000, 40_001, 10)
        both = ((first, first * 1.116), (second, 1e6 + second * 1.116))
        return tuple(Part(View(Commits(*each))) for each in both)


def info(price: float) -> RunInfo:
    config: dict[str, object] = {"cost_per_hour": price}
    return RunInfo(
        id="x", attempt=1, command=("python", "a.py"), cwd="/", created_s=0.0, pid=1, host="h",
        python="3", mothtrap="0", config=config,
    )  # fmt: skip


def test_a_finding_says_what_came_after_it_and_what_was_saved_before() -> None:
    saves = tuple(CheckpointSaved(step=s, path=f"m-{s}.pt") for s in (9_000, 18_000, 27_000))
    run: Any = Timed(steps=40_000, info=info(2.0), observed=saves)
    [after] = aftermaths(run, [exploding(step=20_000)])
    assert (after.steps, after.total, after.saved) == (20_000, 40_000, 18_000)
    # from step 20,000 of the first attempt to its end, and the whole second one
    assert round(after.seconds) == round((29_990 - 20_000) * 1.116 + 15_000 * 1.116)
    assert in_words(after) == "20,000 of 40,000 steps, 7.7 h, cost 15.49"
    assert saved_in_words(after) == "after 18,000 steps (m-18000.pt)"
    assert clause_lines(after, PLAIN) == [
        "  lasted: 20,000 of 40,000 steps, 7.7 h, cost 15.49",
        "  last weights saved before it: after 18,000 steps (m-18000.pt)",
    ]


def test_weights_with_which_the_bad_step_began_are_good_and_later_ones_are_not() -> None:
    run: Any = Timed(steps=40_000, observed=(CheckpointSaved(step=5), CheckpointSaved(step=6)))
    [at, before] = aftermaths(run, [exploding(step=5), exploding(step=4)])
    assert (at.saved, before.saved) == (5, None)
    assert saved_in_words(before) == ""


def test_a_short_run_is_not_worth_a_clause() -> None:
    [after] = aftermaths(HandMadeRun(), [exploding()])  # type: ignore[arg-type]
    assert (after.seconds, clause_lines(after, PLAIN)) == (0.0, [])
    assert aftermaths(HandMadeRun(steps=0), [exploding()]) == ()  # type: ignore[arg-type]


def test_a_fault_that_comes_and_goes_did_not_last_all_the_time() -> None:
    """Twelve bad batches were once reported as 253 of 256 bad steps."""
    run: Any = Timed(steps=40_000)
    bad = exploding(code="NUM005", step=20_000, count=11)
    rare, common, sampled = aftermaths(
        run,
        [bad, exploding(code="NUM005", step=20_000, count=19_000), exploding(step=20_000, count=1)],
    )
    assert in_words(rare) == "20,000 of 40,000 steps, 7.7 h; observed in 11 of these steps"
    assert (common.observed, sampled.observed) == (0, 0)
