"""Report steps as they become complete, when no further worker can add to them."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator

from mothtrap.core.errors import StepNotYetError, StepUnavailableError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.reader.files.attempts import AttemptView
from mothtrap.reader.files.commits import ModeName, mode_code
from mothtrap.reader.files.parts import Span
from mothtrap.reader.files.run_files import RunFiles
from mothtrap.reader.series.steps import StepState, StepStatus, Timeline, expected_workers

POLL_S = 0.02
"""Pause between two reads; chosen by hand: a fifth of the promised delay."""
JUDGE_EVERY_S = 0.5
"""Interval at which running processes are checked; chosen by hand."""


def follow_steps(
    files: RunFiles, span: Span, *, mode: ModeName | None, poll_s: float
) -> Iterator[StepStatus]:
    """Yield existing steps, then new steps, each once; see `Run.follow`."""
    if mode is not None:
        mode_code(mode)
    completions: dict[int, Completion] = {}
    judged_s = float("-inf")
    while True:
        judge = time.monotonic() - judged_s >= JUDGE_EVERY_S
        files.refresh(judge=judge)
        judged_s = time.monotonic() if judge else judged_s
        found = False
        for number in sorted(files.attempts):
            attempt = files.attempts[number]
            completion = completions.setdefault(number, Completion(attempt, number))
            over = number < max(files.attempts) or not attempt.writing
            for status in completion.poll(over=over):
                found = True
                if status.key.step in span.bounds and mode in (None, status.key.mode):
                    yield status
        if not found:
            if not files.writing or files.holds or _passed(files, span):
                return
            time.sleep(poll_s)


def wait_for(
    files: RunFiles,
    span: Span,
    step: int,
    *,
    mode: ModeName,
    timeout_s: float | None,
    poll_s: float,
) -> StepStatus:
    """Wait until a step is available; see `Run.wait_for`."""
    mode_code(mode)
    until_s = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    judged_s = float("-inf")
    while True:
        judge = time.monotonic() - judged_s >= JUDGE_EVERY_S
        files.refresh(judge=judge)
        judged_s = time.monotonic() if judge else judged_s
        status = Timeline(span).status(step, mode)
        if status.state is StepState.AVAILABLE:
            return status
        if status.state is StepState.UNAVAILABLE:
            raise StepUnavailableError(_unavailable(files, span, step, mode))
        if files.holds:
            raise StepNotYetError(
                f"step {step} is not recorded yet, and the run is frozen: exit `frozen()` to wait"
            )
        if time.monotonic() >= until_s:
            lacking = ", ".join(map(str, status.missing))
            raise StepNotYetError(
                f"step {step} of mode {mode} was not recorded within {timeout_s:g} s; the job is "
                "still running"
                + (f"; workers without the step: {lacking}" if status.workers else "")
            )
        time.sleep(poll_s)


def _passed(files: RunFiles, span: Span) -> bool:
    """Return whether every worker is beyond the steps that are inspected."""
    latest = files.attempts[max(files.attempts)]
    ranks = expected_workers(latest)
    reached = [latest.workers[rank].steps for rank in ranks if rank in latest.workers]
    return len(reached) == len(ranks) > 0 and min(reached) >= span.bounds.end


def _unavailable(files: RunFiles, span: Span, step: int, mode: ModeName) -> str:
    if step not in span.bounds:
        bounds = span.bounds
        return f"step {step} is outside of this view: it shows {bounds.begin} to {bounds.end - 1}"
    steps = Timeline(span).steps(mode)
    has = (
        (f"{len(steps)} steps were captured, the last is {steps[-1]}")
        if len(steps)
        else "none was captured"
    )
    why = "the job has passed it" if files.writing else "the job has ended"
    return f"step {step} of mode {mode} will not be recorded: {why}; {has}"


class Completion:
    """Determines from an attempt's data which steps are complete.

    The work for a step does not grow with the run.

    Args:
        attempt: attempt that is refreshed elsewhere.
        number: number of the attempt.
    """

    def __init__(self, attempt: AttemptView, number: int) -> None:
        self._attempt = attempt
        self._number = number
        self._read: dict[int, int] = {}
        self._reached: dict[int, dict[Mode, StepKey]] = {}
        self._held: dict[StepKey, set[int]] = {}
        self._waiting: list[StepKey] = []
        self._reported: dict[Mode, StepKey] = {}

    def poll(self, *, over: bool) -> Iterator[StepStatus]:
        """Yield the steps that have become complete, in order.

        Args:
            over: this attempt will produce no more data.
        """
        self._take()
        while self._waiting:
            key = self._waiting[0]
            lacking = [r for r in expected_workers(self._attempt) if r not in self._held[key]]
            if not over and any(self._may_bring(rank, key) for rank in lacking):
                return
            self._reported[key.mode] = heapq.heappop(self._waiting)
            yield StepStatus(
                key=key,
                state=StepState.AVAILABLE,
                workers=tuple(sorted(self._held.pop(key))),
                missing=tuple(lacking),
                attempt=self._number,
            )

    def _take(self) -> None:
        for rank, view in self._attempt.workers.items():
            commits, reached = view.commits, self._reached.setdefault(rank, {})
            for row in range(self._read.get(rank, 0), len(commits)):
                if commits.closing[row]:
                    continue
                key = commits.key(row)
                reached[key.mode] = key
                if key in self._held:
                    self._held[key].add(rank)
                elif key.mode not in self._reported or key > self._reported[key.mode]:
                    self._held[key] = {rank}
                    heapq.heappush(self._waiting, key)
            self._read[rank] = len(commits)

    def _may_bring(self, rank: int, key: StepKey) -> bool:
        if rank in self._attempt.gone:
            return False
        reached = self._reached.get(rank, {})
        same = reached.get(key.mode)
        if same is not None and same.mode_step >= key.mode_step:
            return False
        # Evaluations of a step precede the step itself.
        trained = reached.get(Mode.TRAIN)
        passed = key.step + (key.mode == Mode.TRAIN)
        return trained is None or trained.step < passed
