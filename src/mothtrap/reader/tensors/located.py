"""Locations of the rows and copies of one tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import StepNotYetError, StepUnavailableError, UnknownNameError
from mothtrap.core.facts.modules import ShapeChanged
from mothtrap.core.steps import Mode, StepKey, step_number
from mothtrap.core.window import Ints
from mothtrap.reader.files.commits import ModeName
from mothtrap.reader.files.parts import EVERYTHING, Part, Span
from mothtrap.reader.series.steps import StepState, Timeline
from mothtrap.reader.tensors.kept import Place, belong, rows_of
from mothtrap.reader.tensors.left_out import why_left_out

Wanted = Literal["values", "statistics", "shapes"]
WAYS = {
    "values": "capture them with a collection that has raw = true (shape_only keeps no values; "
    "`shape_at` returns the shapes)",
    "statistics": "capture them with a collection",
    "shapes": "capture them with a collection that has shape_only = true",
}


@dataclass(frozen=True, slots=True)
class Located:
    """A tensor in the files of its workers; `mode` and `worker` as in `Tensor`.

    Attributes:
        span: the run, or a part of it.
        identity: the text form `kind:name`.
        workers: ranks that have it, ascending.
    """

    span: Span
    identity: str
    workers: tuple[int, ...]

    def worker(self, worker: int | None) -> int:
        """Return a worker that has the tensor, by default the lowest rank."""
        if worker is not None and worker not in self.workers:
            raise UnknownNameError(
                f"worker {worker} has no {self.identity}; workers that have it: "
                f"{', '.join(map(str, self.workers))}"
            )
        return self.workers[0] if worker is None else worker

    def parts(self, worker: int | None) -> list[tuple[Part, list[int]]]:
        """Return the parts of a worker, each with the tensor's ids."""
        parts = self.span.parts(self.worker(worker))
        return [(part, part.view.ids(self.identity)) for part in parts]

    def raw_rows(self, mode: ModeName | None, worker: int | None) -> Iterator[Place]:
        """Yield the locations of the tensor's copies, in order."""
        for part, ids in self.parts(worker):
            for piece in part.view.raw():
                rows = np.flatnonzero(belong(piece.column("tensor"), ids))
                rows = rows[part.counts(piece.commit_N[rows], mode)]
                for row in rows.tolist():
                    yield part, int(piece.commit_N[row]), piece, row

    def moments(
        self, step: int | StepKey, mode: ModeName | None, worker: int | None
    ) -> list[tuple[Part, int]]:
        """Return the records of a step, the train step first."""
        key = step if isinstance(step, StepKey) else None
        number = step_number(step)
        found = [
            (part, commit)
            for part, _ in self.parts(worker)
            for commit in part.at(number, key.mode if key else mode).tolist()
            if key is None or part.view.commits.key(commit) == key
        ]
        return found[::-1]  # evaluations of a step precede it

    def steps(self, mode: ModeName | None, worker: int | None) -> Ints:
        """Return the job's steps with captured statistics or values of the tensor."""
        found = [np.empty(0, np.int64)]
        for part, ids in self.parts(worker):
            for piece in (*part.view.statistics(), *part.view.raw()):
                commit_N = piece.commit_N[belong(piece.column("tensor"), ids)]
                found.append(part.view.commits.steps[commit_N[part.counts(commit_N, mode)]])
        step_N = np.sort(np.concatenate(found), kind="stable")
        return step_N[np.diff(step_N, prepend=-1) > 0]

    def find(
        self,
        step: int | StepKey,
        mode: ModeName | None,
        worker: int | None,
        wanted: Wanted = "values",
    ) -> list[Place]:
        """Return the location of each copy at one moment, in order.

        Args:
            step: step of the job, or a moment.
            mode: as in `Tensor`.
            worker: as in `Tensor`.
            wanted: word for the missing data in the error message.
        """
        found = [
            (part, commit, *place)
            for part, commit in self.moments(step, mode, worker)
            for place in rows_of(part.view.raw(), commit, part.view.ids(self.identity))
        ]
        if not found:
            self._complain(step, mode, worker, wanted)
        keys = list(dict.fromkeys(part.view.commits.key(commit) for part, commit, _, _ in found))
        if len(keys) > 1 and keys[0].mode is not Mode.TRAIN:
            first, last = keys[-1], keys[0]
            raise StepUnavailableError(
                f"step {first.step} has {len(keys)} moments of mode {first.mode} with "
                f"{self.identity}: mode_step {first.mode_step} to {last.mode_step}; pass one of "
                "them as a StepKey, see `raw_keys`"
            )
        return [place for place in found if place[:2] == found[0][:2]]

    def chosen(self, copies: list[Place], copy: int | None) -> Place:
        """Return one of the copies of a tensor at a moment."""
        count = len(copies)
        if copy is None and count > 1:
            part, commit, _, _ = copies[0]
            raise StepUnavailableError(
                f"step {part.view.commits.key(commit).step} has {count} copies of "
                f"{self.identity}, of micro-batches or calls: pass copy=0 to copy={count - 1}, or "
                "read all from `values()`"
            )
        if copy is not None and not -count <= copy < count:
            raise StepUnavailableError(
                f"there is no copy {copy} of {self.identity}: that step has {count}, from 0"
            )
        return copies[copy or 0]

    def raw_keys(self, mode: ModeName | None, worker: int | None) -> tuple[StepKey, ...]:
        """Return the moments with copies, in order."""
        keys = (part.view.commits.key(c) for part, c, _, _ in self.raw_rows(mode, worker))
        return tuple(dict.fromkeys(keys))

    def followed_shape(
        self, step: int | StepKey, mode: ModeName | None, worker: int | None
    ) -> tuple[int, ...] | None:
        """Return the recorded shape at a step; None if the shapes are not captured.

        Also None for an evaluation in a step with recorded shapes, which may belong to training.
        """
        for part, commit in self.moments(step, mode, worker):
            ids, view = part.view.ids(self.identity), part.view
            if rows_of(view.raw(), commit, ids) or not rows_of(view.statistics(), commit, ids):
                continue
            key = view.commits.key(commit)
            told = [
                fact
                for fact in view.observations
                if isinstance(fact, ShapeChanged)
                and fact.tensor == self.identity
                and fact.step <= key.step
            ]
            if told and (key.mode is Mode.TRAIN or told[-1].step < key.step):
                return told[-1].shape
        return None

    def _complain(
        self, step: int | StepKey, mode: ModeName | None, worker: int | None, wanted: Wanted
    ) -> NoReturn:
        """Report that data is missing at a step, and where it exists."""
        number = step_number(step)
        if isinstance(step, StepKey):
            mode = step.mode
        status = Timeline(self.span).status(number, mode or Mode.TRAIN)
        if status.state is StepState.NOT_YET:
            raise StepNotYetError(
                f"{self.identity} has no {wanted} of step {number} yet: the job has not reached "
                "it; `Run.wait_for` waits"
            )
        steps, all_steps = (self._steps_with(wanted, m, worker) for m in (mode, None))
        bounds = self.span.bounds
        inside = "" if bounds == EVERYTHING else f" in steps {bounds.begin} to {bounds.end - 1}"
        where = f" in mode {mode}" if mode else ""
        if not steps:
            has = (
                (f"in other modes, they were captured at {_listed(all_steps)}")
                if all_steps
                else WAYS[wanted]
            )
            raise StepUnavailableError(
                f"no {wanted} of {self.identity} were captured{where}{inside}, so there are none "
                f"for step {number}; {has}"
            )
        near = min(steps, key=lambda other: abs(other - number))
        facts = (fact for part, _ in self.parts(worker) for fact in part.view.observations)
        kind, raw = self.identity.partition(":")[0], wanted == "values"
        why = why_left_out(facts, kind, number, Mode(mode or Mode.TRAIN), raw=raw)
        raise StepUnavailableError(
            f"no {wanted} of {self.identity} were captured at step {number}{where}; they were at "
            f"{_listed(steps)}{inside}, the nearest is {near}" + (f" ({why})" if why else "")
        )

    def _steps_with(self, wanted: Wanted, mode: ModeName | None, worker: int | None) -> list[int]:
        if wanted == "values":
            return sorted({key.step for key in self.raw_keys(mode, worker)})
        if wanted == "shapes":
            told = self._shape_steps(mode, worker)
            return sorted({*told, *self._steps_with("values", mode, worker)})
        return [int(step) for step in self.steps(mode, worker)]

    def _shape_steps(self, mode: ModeName | None, worker: int | None) -> list[int]:
        """Return the steps of a tensor whose shapes are recorded; empty for other tensors."""
        facts = (fact for part, _ in self.parts(worker) for fact in part.view.observations)
        told = (isinstance(f, ShapeChanged) and f.tensor == self.identity for f in facts)
        return self.steps(mode, worker).tolist() if any(told) else []

    def summary(self, part: Part, commit: int) -> npt.NDArray[np.float64] | None:
        """Return the tensor's row of statistics in a record, float64, shape (1, F)."""
        ids = part.view.ids(self.identity)
        for piece, row in rows_of(part.view.statistics(), commit, ids):
            if piece.fields:
                return piece.summary(slice(row, row + 1))
        return None


def _listed(steps: list[int]) -> str:
    count = f"{len(steps)} steps from {steps[0]} to {steps[-1]}"
    return count if len(steps) > 1 else f"step {steps[0]}"
