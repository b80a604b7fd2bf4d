"""Restart of a job: number of its attempt, and the step at which it continues."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.errors import DamagedDataError, RunExistsError
from mothtrap.core.facts.data import SplitDrawn
from mothtrap.core.facts.workers import Resumed, WeightsSaved
from mothtrap.core.steps import Mode
from mothtrap.store import layout
from mothtrap.store.processes import start_ticks

if TYPE_CHECKING:
    from mothtrap.store.worker_reading import StepEvents

MAX_SPLITS = 4
"""Number of latest splits of earlier attempts that are compared."""
MAX_LOSSES = 16
"""Number of losses before and after the resumption, and of rates, that are compared."""
MAX_STEPS = 100_000
"""Number of latest steps of earlier attempts that are searched for it. Chosen by hand: 10 MB."""
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""Variable in which torchrun counts its restarts of workers after failures."""


def restarts_of(environ: Mapping[str, str]) -> int:
    """Return the number of times that torchrun has restarted the workers of this job."""
    count = environ.get(RESTARTS, "")
    return int(count) if count.isdigit() else 0


def launcher_of(environ: Mapping[str, str]) -> str:
    """Return a unique description of the process that restarts this process when it fails.

    Empty if that process is not torchrun, or if it may be on another machine: earlier attempts are
    looked up on this machine.
    """
    here, all_workers = environ.get("LOCAL_WORLD_SIZE"), environ.get("WORLD_SIZE")
    if RESTARTS not in environ or here is None or here != all_workers:
        return ""
    parent = os.getppid()
    return f"{socket.gethostname()}/{parent}/{start_ticks(parent)}"


def earlier_attempt(runs: Path, name: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the last attempt of this job before its launcher restarted it.

    Args:
        runs: folder of the runs.
        name: name of the run, if the user chose one.
        environ: environment of this process.

    Returns:
        Its folder. None if this is the first start, if that start created no run, or if it created
        several runs without this name.
    """
    restarts, launcher = restarts_of(environ), launcher_of(environ)
    if not restarts or not launcher:
        return None
    found = []
    for run in layout.list_runs(runs) if name is None else [runs / name]:
        made = [layout.attempt_folder(run, number) for number in layout.attempts(run)]
        mine = [path for path in made if _is_of(path, launcher, restarts)]
        found += mine[-1:]
    return found[0] if len(found) == 1 else None


def _is_of(attempt: Path, launcher: str, restarts: int) -> bool:
    try:
        info = layout.read_info(attempt)
    except (DamagedDataError, OSError):
        return False
    return info is not None and info.launcher == launcher and info.restarts < restarts


def own_attempt(opened: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of this process's attempt, which may not exist yet.

    Args:
        opened: the attempt that the launcher of mothtrap opened.
        environ: environment of this process.
    """
    return layout.attempt_folder(opened.parent, int(opened.name) + restarts_of(environ))


def open_attempt(opened: Path, own: Path) -> Path:
    """Create the folder of a restarted attempt; the first worker to call this creates it.

    Raises:
        OSError: the folder cannot be written.
        DamagedDataError: the description of the attempt that was opened cannot be read.
    """
    info = layout.read_info(opened)
    if own != opened and info is not None:
        anew = msgspec.structs.replace(info, attempt=int(own.name), created_s=time.time())
        own.mkdir(exist_ok=True)
        if layout.read_info(own) is None:
            layout.write_info(own, anew)
    return own


@dataclass(frozen=True, slots=True)
class _Trained:
    """A step of an earlier attempt; `record` is its position in the log in `folder`."""

    attempt: int
    folder: Path
    record: int
    step: int

    def precedes(self, attempt: int, step: int) -> bool:
        """Return whether the step precedes an attempt that begins with `step`, or is part of it."""
        return self.attempt == attempt or self.step < step


def _values_of(steps: Sequence[_Trained], name: str) -> dict[str, tuple[float, ...]]:
    """Return a scalar at some steps, by series or optimizer, in the order of the steps."""
    from mothtrap.store.worker_reading import scalars_of

    by_folder: dict[Path, list[int]] = {}
    for one in steps:
        by_folder.setdefault(one.folder, []).append(one.record)
    found: dict[str, list[float]] = {}
    for folder, records in by_folder.items():
        scalars = scalars_of(folder, records)
        for record in records:
            for scalar in scalars.get(record, ()):
                if scalar.name == name:
                    found.setdefault(scalar.of, []).append(scalar.value)
    return {of: tuple(values) for of, values in found.items()}


class Resumption:
    """Determines where a restarted job resumes, from the records of earlier attempts.

    Args:
        opened: the attempt that the launcher of mothtrap opened.
        own: attempt of this process.
        rank: rank of this process, if it has one.
    """

    def __init__(self, opened: Path, own: Path, rank: Callable[[], int | None]) -> None:
        self._opened, self._own, self._rank = opened, own, rank

    def __call__(self, digests: Mapping[str, str], own_steps: int | None) -> Resumed:
        """Return where the job continues.

        Args:
            digests: digests of the current weights, by root.
            own_steps: number of steps according to the optimizer, if it counts them.
        """
        saved: dict[tuple[str, str], int] = {}
        evaluated: list[tuple[int, int]] = []
        splits: list[SplitDrawn] = []
        trained: deque[_Trained] = deque(maxlen=MAX_STEPS)
        last = begun = 0
        for number, folder, events in self._events():
            if events.commit.optimizers:
                last = max(last, events.key.step + 1)
                trained.append(_Trained(number, folder, events.record, events.key.step))
            if events.key.mode is Mode.EVAL:
                evaluated.append((events.key.step, events.key.mode_step + 1))
            for seen in events.observations:
                if isinstance(seen, WeightsSaved):
                    saved[seen.root, seen.digest] = seen.step
                    evaluated.append((seen.step, seen.evaluations))
                elif isinstance(seen, SplitDrawn):
                    splits.append(seen)
                elif isinstance(seen, Resumed):
                    splits.extend(seen.splits)
                    begun = seen.step if number == int(self._opened.name) else begun
                    evaluated = [(at, n) for at, n in evaluated if at <= seen.step]
                    kept = (one for one in trained if one.precedes(number, seen.step))
                    trained = deque(kept, maxlen=MAX_STEPS)
        matched = [saved[item] for item in digests.items() if item in saved]
        if matched:
            step, evidence = max(matched), f"its weights are those saved after {max(matched)} steps"
        elif own_steps:
            step, evidence = own_steps, f"its optimizer has taken {own_steps} steps"
        elif self._own == self._opened:
            step = last
            evidence = (
                "it was started with --resume, but nothing that it loaded shows where, so it is "
                "assumed to continue after the last recorded step"
            )
        else:
            step, evidence = begun, "it loaded no saved state, so it started over"
        # Evaluations have the number of the step that follows them.
        evaluations = max((n for at, n in evaluated if at <= step), default=0)
        before = tuple(split for split in splits if split.step <= step)
        continues = bool(matched or own_steps)
        before_N = [one for one in trained if one.step < step]
        begins = before_N[:MAX_LOSSES] if before_N and before_N[0].step == 0 and matched else []
        return Resumed(
            step=step,
            evidence=evidence,
            evaluations=evaluations,
            splits=before[-MAX_SPLITS:] if continues else (),
            loaded=bool(matched),
            losses=_values_of(before_N[-MAX_LOSSES:], "loss"),
            first_rates=_values_of(begins, "lr"),
            last_rates={of: rates[-1] for of, rates in _values_of(before_N[-1:], "lr").items()},
        )

    def _events(self) -> Iterator[tuple[int, Path, StepEvents]]:
        from mothtrap.store.worker_reading import EventReader

        for number in layout.attempts(self._own.parent):
            attempt = layout.attempt_folder(self._own.parent, number)
            if number >= int(self._own.name):
                return
            ranks = layout.workers(attempt)
            own = self._rank() or 0
            for rank in [own] if own in ranks else ranks:
                folder = layout.worker_folder(attempt, rank)
                for events in EventReader(folder).poll():
                    yield number, folder, events


def next_attempt(run: Path) -> int:
    """Return the number of the attempt that a resumed run opens.

    Raises:
        RunExistsError: the run is still running.
    """
    from mothtrap.reader.run import open_run

    if open_run(run).state == "running":
        raise RunExistsError(
            f"cannot resume the run {run.name!r}: it is still running; stop it first, or choose "
            "another name with --name"
        )
    return layout.attempts(run)[-1] + 1
