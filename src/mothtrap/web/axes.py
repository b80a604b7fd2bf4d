"""Axes of a chart: steps, seconds, epochs or samples; all are made from the step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints
from mothtrap.reader.run import Run

Axis = Callable[[Ints], Floats]
"""Makes x of steps, shape (B,) of both."""
POINTS = 100_000
"""Of the line from step to time; chosen by hand: far finer than a screen."""


def axes(run: Run) -> list[str]:
    """Return the names of the axes that a run has data for."""
    found = ["step", "time"]
    passes = _pass_ends(run)
    if len(passes) > 1:
        found.append("epoch")
        if _samples_in_pass(run):
            found.append("samples")
    return found


def axis_of(run: Run, name: str, worker: int) -> Axis:
    """Return the function that turns steps into x values.

    Args:
        run: the run.
        name: `step`, `time` (seconds since the first step), `epoch` (passes over the training
            data) or `samples` (of all passes).
        worker: rank.

    Raises:
        UnknownNameError: the run has no such axis.
    """
    if name == "step":
        return lambda step_B: step_B.astype(np.float64)
    known = axes(run)
    if name not in known:
        hint = nearest(name, known)
        raise UnknownNameError(f"{run.id} has no axis {name!r}{hint}; it has {', '.join(known)}")
    if name == "time":
        return _time(run, worker)
    ends = _pass_ends(run)
    scale = 1.0 if name == "epoch" else float(_samples_in_pass(run))
    known_P, epoch_P = np.array(list(ends)), np.array(list(ends.values()), np.float64)
    return lambda step_B: scale * _line(step_B, known_P, epoch_P)


def _time(run: Run, worker: int) -> Axis:
    steps, seconds = [np.empty(0, np.int64)], [np.empty(0)]
    for part in run.parts(worker):
        row_N = part.commits(Mode.TRAIN)
        row_N = row_N[:: 1 + len(row_N) // POINTS]
        steps.append(part.view.commits.steps[row_N])
        seconds.append(part.view.commits.wall_s[row_N])
    step_P, wall_P = np.concatenate(steps), np.concatenate(seconds)
    if not len(step_P):
        return lambda step_B: np.zeros(len(step_B))
    return lambda step_B: _line(step_B, step_P, wall_P - wall_P[0])


def _line(step_B: Ints, known_P: Ints, value_P: Floats) -> Floats:
    """Interpolate, and continue beyond the last known point at the last pace."""
    found = np.interp(step_B, known_P, value_P)
    if len(known_P) > 1 and known_P[-1] > known_P[-2]:
        pace = (value_P[-1] - value_P[-2]) / (known_P[-1] - known_P[-2])
        beyond = np.maximum(step_B - known_P[-1], 0)
        found = found + pace * beyond
    result: Floats = found
    return result


def _pass_ends(run: Run) -> dict[int, float]:
    """By step, how many passes over the training data were over; from 0 at step 0 on."""
    ended = [seen for seen in run.observations(BatchesLoaded) if seen.ended]
    ended = [seen for seen in ended if seen.mode == Mode.TRAIN and seen.pass_number]
    if not ended:
        return {0: 0.0}
    longest = max(ended, key=lambda seen: seen.batches).loader
    ends = {0: 0.0}
    for seen in sorted(ended, key=lambda seen: seen.step):
        if seen.loader == longest and seen.pass_number > ends[max(ends)]:
            ends[seen.step + 1] = float(seen.pass_number)
    return ends


def _samples_in_pass(run: Run) -> int:
    ended = [seen for seen in run.observations(BatchesLoaded) if seen.ended]
    if not ended:
        return 0
    longest = max(ended, key=lambda seen: seen.batches).loader
    sizes = [seen.samples for seen in run.observations(LoaderBegan) if seen.loader == longest]
    return next((size for size in sizes if size), 0)
