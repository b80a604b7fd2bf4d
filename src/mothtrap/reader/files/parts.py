"""Data of one worker over the whole run, with all attempts joined.

If a later attempt repeats steps, its numbers replace the earlier numbers of all workers, including
workers that the later attempt does not have. Shape suffixes: N = rows, C = committed records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Ints
from mothtrap.reader.files.attempts import AttemptView
from mothtrap.reader.files.commits import ENDLESS, ModeName, mode_code
from mothtrap.reader.files.worker_view import WorkerView


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of steps: from `begin` up to but excluding `end`."""

    begin: int = 0
    end: int = ENDLESS

    def within(self, begin: int, end: int) -> Bounds:
        """Return the intersection of two ranges."""
        return Bounds(max(self.begin, begin), min(self.end, end))

    def __contains__(self, step: int) -> bool:
        return self.begin <= step < self.end


EVERYTHING = Bounds()


@dataclass(frozen=True, slots=True)
class Redone:
    """Steps from which later attempts replace an earlier attempt.

    An evaluation before step N has the number N. The attempt that continues with step N has usually
    not repeated it.

    Attributes:
        train: first replaced train step.
        others: first replaced step number of evaluations.
    """

    train: int = ENDLESS
    others: int = ENDLESS

    def by(self, views: Iterable[WorkerView]) -> Redone:
        """Return the steps that count in attempts before the attempts of some workers."""
        begun = [view for view in views if view.first_step is not None]
        trains = [view.first_step for view in begun if view.first_step is not None]
        evaluated = [view.first_evaluated for view in begun if view.first_evaluated is not None]
        others = [*evaluated, *(step + 1 for step in trains)]
        return Redone(min(self.train, *trains), min(self.others, *others)) if begun else self


NOTHING = Redone()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A worker in one attempt, and its steps that count."""

    attempt: int
    view: WorkerView
    bounds: Bounds
    redone: Redone = NOTHING

    def has(self, step: int, mode: ModeName = Mode.TRAIN) -> bool:
        """Return whether a recorded step counts."""
        end = self.redone.train if mode == Mode.TRAIN else self.redone.others
        return step in self.bounds and step < end

    def counts(self, commit_N: Ints, mode: ModeName | None = None) -> Bools:
        """Return a mask of the rows of the view's `Commits` that count, shape (N,)."""
        commits = self.view.commits
        keep_N = np.ones(len(commit_N), np.bool_)
        if self.bounds != EVERYTHING:
            step_N = commits.steps[commit_N]
            keep_N &= (step_N >= self.bounds.begin) & (step_N < self.bounds.end)
        if self.redone != NOTHING:
            # Values logged after the last step are not repeated, and neither are evaluations.
            trained_N = commits.modes[commit_N] == mode_code(Mode.TRAIN)
            trained_N &= ~commits.closing[commit_N]
            keep_N &= commits.steps[commit_N] < np.where(
                trained_N, self.redone.train, self.redone.others
            )
        if mode is not None:
            keep_N &= commits.modes[commit_N] == mode_code(mode)
        return keep_N

    def at(self, step: int, mode: ModeName | None = None) -> Ints:
        """Return the counting rows of one of the job's steps, ascending; O(log C).

        Includes values that were logged after the last step, if this is the last step.
        """
        start, stop = np.searchsorted(self.view.commits.steps, (step, step + 1))
        rows = np.arange(start, stop)
        return rows[self.counts(rows, mode)]

    def steps_at(self, step: int, mode: ModeName | None = None) -> Ints:
        """Return the rows of one of the job's steps that are steps or evaluations."""
        rows = self.at(step, mode)
        return rows[~self.view.commits.closing[rows]]

    def commits(self, mode: ModeName | None = None) -> Ints:
        """Return the rows of the view's `Commits` that are steps or evaluations, ascending."""
        all_C = np.flatnonzero(~self.view.commits.closing)
        return all_C[self.counts(all_C, mode)]


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A run, or a range of its steps.

    Attributes:
        attempts: attempts by number; grows with the run.
        bounds: bounds of the steps.
    """

    attempts: Mapping[int, AttemptView]
    bounds: Bounds = EVERYTHING

    def narrowed(self, begin: int, end: int) -> Span:
        """Return the part from `begin` up to but excluding `end`."""
        return Span(self.attempts, self.bounds.within(begin, end))

    @property
    def latest(self) -> AttemptView:
        """Latest attempt."""
        return self.attempts[max(self.attempts)]

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks of all attempts, ascending."""
        return tuple(sorted({rank for a in self.attempts.values() for rank in a.workers}))

    def views(self, worker: int) -> list[WorkerView]:
        """Return the views of a worker, by attempt."""
        found = (a.workers.get(worker) for _, a in sorted(self.attempts.items()))
        return [view for view in found if view is not None]

    def parts(self, worker: int) -> list[Part]:
        """Return the parts of a worker, one per attempt."""
        redone = self._redone().items()
        views = [(n, self.attempts[n].workers.get(worker), ends) for n, ends in redone]
        return [Part(n, view, self.bounds, ends) for n, view, ends in views if view is not None]

    def all_parts(self) -> list[Part]:
        """Return the parts of every worker, by rank and attempt."""
        by_attempt = self.by_attempt()
        return [parts[w] for w in self.workers for parts in by_attempt if w in parts]

    def by_attempt(self) -> list[dict[int, Part]]:
        """Return the parts of the workers by rank, one per attempt."""
        return [
            {
                rank: Part(number, view, self.bounds, redone)
                for rank, view in sorted(self.attempts[number].workers.items())
            }
            for number, redone in self._redone().items()
        ]

    def _redone(self) -> dict[int, Redone]:
        """Return the steps that later attempts repeated, by attempt, in order."""
        found, redone, first = {}, NOTHING, min(self.attempts, default=0)
        for number in sorted(self.attempts, reverse=True):
            found[number] = redone
            if number != first:
                redone = redone.by(self.attempts[number].workers.values())
        return dict(sorted(found.items()))
