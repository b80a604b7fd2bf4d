"""The numbers of one worker over the whole run, all attempts joined.

Where a later attempt does steps again, its numbers replace the earlier ones.
Shape suffixes: N = rows, C = committed records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mothtrap.core.window import Bools, Ints
from mothtrap.reader.attempts import AttemptView
from mothtrap.reader.commits import ENDLESS, ModeName, mode_code
from mothtrap.reader.worker_view import WorkerView


@dataclass(frozen=True, slots=True)
class Bounds:
    """The steps that are looked at: from `begin` on, before `end`."""

    begin: int = 0
    end: int = ENDLESS

    def within(self, begin: int, end: int) -> Bounds:
        """Return the steps that both have."""
        return Bounds(max(self.begin, begin), min(self.end, end))

    def __contains__(self, step: int) -> bool:
        return self.begin <= step < self.end


EVERYTHING = Bounds()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One worker in one attempt, and which of its steps count."""

    attempt: int
    view: WorkerView
    bounds: Bounds

    def counts(self, commit_N: Ints, mode: ModeName | None = None) -> Bools:
        """Say which rows of the view's `Commits` count, shape (N,)."""
        commits = self.view.commits
        keep_N = ~commits.closing[commit_N]
        if self.bounds != EVERYTHING:
            step_N = commits.steps[commit_N]
            keep_N &= (step_N >= self.bounds.begin) & (step_N < self.bounds.end)
        if mode is not None:
            keep_N &= commits.modes[commit_N] == mode_code(mode)
        return keep_N

    def at(self, step: int, mode: ModeName | None = None) -> Ints:
        """Return the rows of one of the job's steps that count, ascending; O(log C)."""
        start, stop = np.searchsorted(self.view.commits.steps, (step, step + 1))
        rows = np.arange(start, stop)
        return rows[self.counts(rows, mode)]

    def commits(self, mode: ModeName | None = None) -> Ints:
        """Return the rows of the view's `Commits` that count, ascending."""
        all_C = np.arange(len(self.view.commits))
        return all_C[self.counts(all_C, mode)]


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A run, or the steps of it that are looked at.

    Attributes:
        attempts: by number; grows as the run does.
        bounds: of the steps.
    """

    attempts: Mapping[int, AttemptView]
    bounds: Bounds = EVERYTHING

    def narrowed(self, begin: int, end: int) -> Span:
        """Return the part of it from `begin` on, before `end`."""
        return Span(self.attempts, self.bounds.within(begin, end))

    @property
    def latest(self) -> AttemptView:
        """The last attempt."""
        return self.attempts[max(self.attempts)]

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks of all attempts, ascending."""
        return tuple(sorted({rank for a in self.attempts.values() for rank in a.workers}))

    def views(self, worker: int) -> list[WorkerView]:
        """Return what a worker captured, by attempt."""
        found = (a.workers.get(worker) for _, a in sorted(self.attempts.items()))
        return [view for view in found if view is not None]

    def parts(self, worker: int) -> list[Part]:
        """Return what a worker did, attempt after attempt."""
        parts, bounds = [], self.bounds
        for number in sorted(self.attempts, reverse=True):
            view = self.attempts[number].workers.get(worker)
            if view is None:
                continue
            parts.append(Part(number, view, bounds))
            if view.first_step is not None:
                bounds = bounds.within(0, view.first_step)
        return parts[::-1]

    def all_parts(self) -> list[Part]:
        """Return what every worker did, by rank and attempt."""
        return [part for worker in self.workers for part in self.parts(worker)]
