"""Steps of a run over all workers: within modes, and in the job's own count.

Shape suffix: S = steps.
"""

from __future__ import annotations

import enum

import msgspec
import numpy as np

from mothtrap.core.errors import StepUnavailableError
from mothtrap.core.steps import Mode, StepKey, step_number
from mothtrap.core.window import Ints
from mothtrap.reader.files.attempts import AttemptView
from mothtrap.reader.files.commits import MODE_CODE, MODES, ModeName, mode_code
from mothtrap.reader.files.parts import Span

START_STEPS = 10
"""A worker that has not begun when others have made this many steps is not awaited; chosen by hand,
because the workers of a job begin together.
"""


class StepState(enum.StrEnum):
    """State of a step."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    NOT_YET = "not yet"


class StepStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a step, and the workers that captured it.

    `available`: at least one worker captured the step, and no other worker can still capture it.
    `not yet`: some worker may still capture it. `unavailable`: no worker captured the step, and no
    worker will. `workers` are the ranks that captured the step, `missing` the ranks that did not.
    """

    key: StepKey
    state: StepState
    workers: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    attempt: int = 1

    @property
    def complete(self) -> bool:
        """True if all workers captured the step."""
        return self.state is StepState.AVAILABLE and not self.missing


class Timeline:
    """Captured steps of a run, as of the last `refresh`.

    `step` counts the optimizer steps of the job that finished before; it is the same in all modes.
    `mode_step` counts steps inside a mode. An evaluation between two training steps has the `step`
    of the second.

    Args:
        span: the run, or a part of it.
    """

    def __init__(self, span: Span) -> None:
        self._span = span

    def modes(self) -> tuple[Mode, ...]:
        """Return the modes with at least one captured step."""
        codes = [part.view.commits.modes[part.commits()] for part in self._span.all_parts()]
        found = set(np.unique(np.concatenate([np.empty(0, np.int64), *codes])).tolist())
        return tuple(mode for mode, code in MODE_CODE.items() if code in found)

    def steps(self, mode: ModeName | None = None) -> Ints:
        """Return the job's captured steps of all workers, int64, shape (S,), ascending."""
        found = [part.view.commits.steps[part.commits(mode)] for part in self._span.all_parts()]
        steps_S: Ints = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
        return steps_S

    def keys(self, mode: ModeName | None = None) -> tuple[StepKey, ...]:
        """Return the keys of all captured steps of all workers, in order."""
        found = [np.empty((3, 0), np.int64)]
        for part in self._span.all_parts():
            commits, rows = part.view.commits, part.commits(mode)
            columns = (commits.steps, commits.modes, commits.mode_steps)
            found.append(np.stack([column[rows] for column in columns]))
        rows = np.unique(np.concatenate(found, axis=1), axis=1).T.tolist()
        keys = (StepKey(step=s, mode=MODES[code], mode_step=n) for s, code, n in rows)
        return tuple(sorted(keys))

    def keys_at(self, step: int) -> tuple[StepKey, ...]:
        """Return the keys captured at one of the job's steps: evaluations, then the train step."""
        found = ((p.view.commits, p.steps_at(step)) for p in self._span.all_parts())
        return tuple(sorted({c.key(row) for c, rows in found for row in rows.tolist()}))

    def step_of(self, mode: ModeName, mode_step: int, *, attempt: int | None = None) -> int:
        """Return the job's step that belongs to step `mode_step` of a mode.

        Args:
            mode: the mode.
            mode_step: step inside the mode.
            attempt: number of the attempt, which is needed if several attempts have this step;
                attempts may count evaluations from 0 again.

        Raises:
            StepUnavailableError: no worker captured the step, or several attempts did; the
                message lists them.
        """
        ends: list[int] = []
        found: dict[int, int] = {}
        for part in self._span.all_parts():
            if attempt not in (None, part.attempt):
                continue
            commits, rows = part.view.commits, part.commits(mode)
            at = rows[commits.mode_steps[rows] == mode_step]
            if len(at):
                found.setdefault(part.attempt, int(commits.steps[at[0]]))
            ends += commits.mode_steps[rows[[0, -1]]].tolist() if len(rows) else []
        if len(set(found.values())) == 1:
            return next(iter(found.values()))
        what = f"step {mode_step} of mode {mode}"
        if found:
            places = ", ".join(f"of attempt {n} (step {at})" for n, at in sorted(found.items()))
            raise StepUnavailableError(f"there is a {what} {places}; choose one with `attempt=`")
        of = "" if attempt is None else f" in attempt {attempt}"
        has = f"captured are {min(ends)} to {max(ends)}" if ends else "nothing was captured in it"
        raise StepUnavailableError(f"there is no {what}{of}: {has}")

    def status(self, step: int, mode: ModeName = Mode.TRAIN) -> StepStatus:
        """Return the state of one of the job's steps."""
        mode, step = MODES[mode_code(mode)], step_number(step)
        span = self._span
        ranks = expected_workers(span.latest) if span.latest.workers else span.workers
        found = {rank: self._row(rank, step, mode) for rank in ranks}
        held = {rank: row for rank, row in found.items() if row is not None}
        lacking = tuple(rank for rank in ranks if rank not in held)
        waits = any(self._may_bring(rank, step) for rank in lacking) or (
            not ranks and span.latest.writing
        )
        state = StepState.AVAILABLE if held else StepState.UNAVAILABLE
        guess = StepKey(step=step, mode=mode, mode_step=step if mode == Mode.TRAIN else 0)
        attempt, key = next(iter(held.values()), (max(span.attempts), guess))
        return StepStatus(
            key=key,
            state=StepState.NOT_YET if waits and step in span.bounds else state,
            workers=tuple(held),
            missing=lacking,
            attempt=attempt,
        )

    def _row(self, worker: int, step: int, mode: ModeName) -> tuple[int, StepKey] | None:
        """Return the last attempt in which a worker has a step, and its key there."""
        for part in reversed(self._span.parts(worker)):
            rows = part.steps_at(step, mode)
            if len(rows):
                return part.attempt, part.view.commits.key(int(rows[-1]))
        return None

    def _may_bring(self, worker: int, step: int) -> bool:
        """Return whether a worker may still reach a missing step."""
        latest = self._span.latest
        view = latest.workers.get(worker)
        return latest.writing and worker not in latest.gone and (view is None or view.steps <= step)


def expected_workers(attempt: AttemptView) -> tuple[int, ...]:
    """Return the ranks whose steps belong to an attempt, ascending.

    These are the ranks that have begun and, at the start of the job, all ranks that the job
    announced, unless only one rank is captured.
    """
    ranks = set(attempt.workers)
    starts = [view.started for view in attempt.workers.values() if view.started]
    world = max((start.world_size for start in starts), default=0)
    alone = attempt.info is not None and attempt.info.config.get("workers", "all") != "all"
    young = max((view.steps for view in attempt.workers.values()), default=0) < START_STEPS
    if attempt.writing and young and not alone:
        ranks |= set(range(world))
    return tuple(sorted(ranks))
