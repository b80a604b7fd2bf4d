"""Evaluations in custom loops: values computed by the same line between two steps."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mothtrap.core.adapters import Job
from mothtrap.tracing.describe import call_baselines
from mothtrap.tracing.describe.constant_baseline import ConstantBaseline
from mothtrap.tracing.describe.loss_numbers import Called

GUESSED: Final = 3
"""Number of evaluations of a line whose targets are inspected; they are the same every time."""
EACH_STEP: Final = 64
"""Number of evaluations after which a line counts as computed in each step."""
GUESSED_CALLS: Final = 64
"""Maximum number of calls in an evaluation whose targets are inspected."""


@dataclass(slots=True)
class _Open:
    """The evaluation in progress of one line."""

    total: float = 0.0
    rows: int = 0
    calls: int = 0
    looked: int = 0
    baseline: ConstantBaseline = field(default_factory=ConstantBaseline)


class LoopEvaluations:
    """Collects the losses of an evaluation, and reports it when the next step begins.

    Args:
        job: receives the evaluations.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._open: dict[str, _Open] = {}
        self._reported: Counter[str] = Counter()
        self._first: dict[str, int] = {}
        self._guesses: dict[str, float | None] = {}

    def add(
        self,
        place: str | None,
        mean: float,
        rows: int,
        look: Callable[[], Called | None] | None = None,
    ) -> None:
        """Record an evaluation loss.

        Args:
            place: the line that computes it.
            mean: mean of its rows.
            rows: rows of the batch.
            look: returns the call with its targets; None = unknown.
        """
        where = place or ""
        one = self._open.setdefault(where, _Open())
        one.total += mean * rows
        one.rows += rows
        one.calls += 1
        if look is not None and one.calls <= GUESSED_CALLS and self._reported[where] < GUESSED:
            called = look()
            if called is not None:
                one.looked += 1
                call_baselines.add_targets(one.baseline, called)

    def wants(self, place: str | None) -> bool:
        """Return whether a line is observed; values computed in each step are not an evaluation."""
        where = place or ""
        told = self._reported[where]
        return told < EACH_STEP or self._job.now.step - self._first[where] >= 2 * told

    def report(self) -> None:
        """Report the evaluations that have ended."""
        found, self._open = self._open, {}
        for place, one in found.items():
            self._reported[place] += 1
            self._first.setdefault(place, self._job.now.step)
            baseline = one.baseline if one.looked == one.calls else None
            if baseline is not None:
                self._guesses[place] = baseline.loss()
            self._job.evaluation(
                f"evaluation {os.path.basename(place)}".strip(),
                {"loss": one.total / max(one.rows, 1)},
                loss="loss",
                rows=one.rows,
                guess=self._guesses.get(place),
                label_counts=baseline.label_counts() if baseline else None,
                moments=baseline.moments() if baseline else (None, None),
                location=place or None,
            )
