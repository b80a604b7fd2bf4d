"""Send a request to a job in another process, and wait for the answer."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TypeVar

from mothtrap.core.collections import Collection, kinds
from mothtrap.core.control_requests import CaptureRequest, Request, SnapshotRequest, StopRequest
from mothtrap.core.errors import ControlError
from mothtrap.core.facts.captures import CaptureChanged
from mothtrap.core.facts.guards import TrainingStopped
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.steps import Mode
from mothtrap.reader.run import Run, open_run
from mothtrap.store import control_inbox as store
from mothtrap.store.remote import read_remote

ANSWER_POLL_S = 0.1
ANSWER_S, STORE_ANSWER_S = 30.0, 120.0
"""Maximum wait for the first answer, for a run in a folder and in an object store. Chosen by hand:
in a store, a request arrives after five seconds, and the answer after twenty.
"""
ALL_WORKERS_S, STORE_ALL_WORKERS_S = 5.0, 30.0
"""Maximum wait for the other workers once one has answered; chosen by hand."""
LEAD_S, STORE_LEAD_S = 3.0, 10.0
"""Time before the common step of several workers by which all should have received a request.
Chosen by hand: three times, or almost twice, as long as this takes.
"""
PACE_STEPS = 20
"""Number of steps from which the duration of a step is estimated; chosen by hand."""
NEAR = 3
"""Number of similar tensors that are named if a pattern matches none."""

AnswerT = TypeVar("AnswerT", CaptureChanged, SnapshotKept, TrainingStopped)


def ask(path: Path, request: CaptureRequest, timeout_s: float | None) -> tuple[CaptureChanged, ...]:
    """Send a request to a running job and wait for its answers, one per worker.

    Args:
        path: folder of the run.
        request: request to its latest attempt.
        timeout_s: seconds to wait for the first answer; None = a default that depends on the store.

    Raises:
        ControlError: the job is not running, rejects the request, or does not answer; the message
            states what to do.
        OSError: the folder or the store cannot be written.
    """
    return _ask(path, request, timeout_s, CaptureChanged)


def ask_for_snapshot(
    path: Path, request: SnapshotRequest, timeout_s: float | None
) -> tuple[SnapshotKept, ...]:
    """Request a snapshot of a running job, and wait until each worker has written it.

    Arguments and errors are those of `ask`.
    """
    return _ask(path, request, timeout_s, SnapshotKept)


def ask_to_stop(
    path: Path, request: StopRequest, timeout_s: float | None
) -> tuple[TrainingStopped, ...]:
    """Stop a running job at a step that all ranks agree on; wait until it has stopped.

    Arguments and errors are those of `ask`.
    """
    return _ask(path, request, timeout_s, TrainingStopped)


def common_step(run: Run) -> int:
    """Return the first step from which all workers can change their captures together.

    No worker will have reached it when the last worker gets the request; 0 = the next step, for a
    job with one worker.
    """
    if len(run.workers) < 2:
        return 0
    table = run.range(max(0, run.steps - PACE_STEPS), run.steps).table("steps")
    rows = [row for row in table.to_pylist() if row["mode"] == Mode.TRAIN]
    ends_s = [float(row["wall_s"]) for row in rows]
    steps = [int(row["step"]) for row in rows]
    if len(set(steps)) < 2:
        return 0
    step_s = max((max(ends_s) - min(ends_s)) / (max(steps) - min(steps)), 1e-4)
    lead_s = STORE_LEAD_S if read_remote(run.path) is not None else LEAD_S
    unread_s = min(max(time.time() - max(ends_s), 0.0), 2 * lead_s)  # clocks differ, and jobs pause
    return run.steps + math.ceil((unread_s + lead_s) / step_s)


def _ask(
    path: Path, request: Request, timeout_s: float | None, kind: type[AnswerT]
) -> tuple[AnswerT, ...]:
    run = check_running(path)
    remote = read_remote(path) is not None
    if timeout_s is None:
        timeout_s = STORE_ANSWER_S if remote else ANSWER_S
    store.send(path, request)
    deadline_s = time.monotonic() + timeout_s
    all_workers_s = STORE_ALL_WORKERS_S if remote else ALL_WORKERS_S
    answers: list[AnswerT] = []
    while len(answers) < max(1, len(run.workers)) and time.monotonic() < deadline_s:
        time.sleep(ANSWER_POLL_S)
        run.refresh()
        found = [a for a in run.observations(kind) if a.request == request.id]
        if found and not answers:
            deadline_s = min(deadline_s, time.monotonic() + all_workers_s)
        answers = found
        if not answers:
            _check_state(run)
    if not answers:
        raise ControlError(
            f"no answer from {run.id} within {timeout_s:g} s: a job answers at the end of a step, "
            "and no step has ended; the job will handle the request at the end of its next step"
        )
    errors = [answer.error for answer in answers if answer.error]
    if len(errors) == len(answers):
        raise ControlError(f"{run.id} refuses: {errors[0]}")
    return tuple(answers)


def in_force(path: Path) -> dict[str, Collection]:
    """Return the currently active collections of a run, by name."""
    run = open_run(path)
    known = run.collections
    changes = sorted(run.observations(CaptureChanged), key=lambda change: change.step)
    names = changes[-1].collections if changes else tuple(known)
    return {name: known[name] for name in names if name in known}


def when(
    request: CaptureRequest, answers: Sequence[CaptureChanged], in_force: Container[str]
) -> str:
    """Describe the first step of a request, and whether its steps are over.

    Args:
        request: request that was carried out.
        answers: answers of the workers; at least one.
        in_force: names of the collections that are active by now.
    """
    steps = sorted({answer.from_step for answer in answers})
    begin = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    if request.for_steps is None or not request.add:
        return f"active from {begin} on"
    over = not any(name in in_force for name in request.add)
    if any(set(added.modes) != {Mode.TRAIN} for added in request.add.values()):
        # Steps of other modes are forwards, whose numbers are not known in advance.
        return f"from {begin} on, done" if over else f"active from {begin} on"
    last = steps[-1] + request.for_steps - 1
    if over:
        return f"step {last}, done" if last == steps[0] else f"steps {steps[0]} to {last}, done"
    return f"active from {begin} on, until step {last}"


def unmatched(path: Path, request: CaptureRequest) -> list[str]:
    """Describe the patterns of a request that match no known tensor.

    Patterns are skipped if the run has reported no tensor of their kinds yet.
    """
    run = open_run(path)
    told = run.tensors()
    patterns = dict.fromkeys(p for added in request.add.values() for p in added.tensors)
    said = []
    for pattern in patterns:
        possible = kinds("", Collection(tensors=(pattern,)))
        names = list(dict.fromkeys(t.name for t in told if t.kind in possible))
        if names and not run.tensors(pattern):
            name = pattern.partition(":")[2] or pattern
            near = difflib.get_close_matches(name, names, n=NEAR, cutoff=0.4) or names[:NEAR]
            said.append(
                f"{pattern!r} matches none of the {len(names)} tensors of that kind that {run.id} "
                f"has recorded so far, such as {', '.join(near)}; tensors that match later are "
                "captured"
            )
    return said


def check_running(path: Path) -> Run:
    """Return the opened run if its job accepts requests; otherwise raise ControlError."""
    run = open_run(path)
    _check_state(run)
    return run


def _check_state(run: Run) -> None:
    if run.state != "running":
        raise ControlError(
            f"{run.id} has {run.state}, so it takes no requests; `mothtrap ls` lists the runs"
        )
