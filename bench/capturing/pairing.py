"""Plain and watched steps of the same training run take turns, and are timed one by one.

Either side of a pair begins with steps that are not measured, so that a measured watched step
includes the background work for earlier steps, as in any longer run. After it they finish outside
the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.capturing.processors import Clock
from bench.memory import Growth, resident_mb

SETTLE_S = 0.12
"""Two polls of mothtrap's queues."""
SAMPLES = 100
"""Number of memory samples in a long run."""
FEWEST_PAIRS = 3


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A training that can be made plain and watched.

    Attributes:
        plain, watched: make one step.
        unwatched: context for plain steps, which removes hooks.
        settle: waits, when a watched side is done, until nothing works beside the training.
        own_s: seconds that the tool reports to have spent on the training thread since the start.
        close: stops watching, and writes all data.
        folder: where that is.
    """

    plain: Callable[[], object]
    watched: Callable[[], object]
    folder: Path
    unwatched: Callable[[], AbstractContextManager[None]] = nullcontext
    settle: Callable[[], None] = _nothing
    own_s: Callable[[], float] | None = None
    close: Callable[[], None] = _nothing


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extent of a measurement.

    Attributes:
        pairs: how often the sides take turns.
        steps: that are measured on either side of a pair; as many, or one of several, before.
        warm_up: watched steps before the first pair.
        most_s: after that time, no further pair begins (but at least three are measured), and the
            warm-up ends after a fifth of it.
        most_gb: the same, of files of 10^9 bytes.
    """

    pairs: int
    steps: int
    warm_up: int
    most_s: float
    most_gb: float


@dataclass(slots=True)
class Side:
    """Measurements of one side, one number for each pair (of `step_s`: a list)."""

    step_s: list[list[float]]
    training_s: list[float]
    """CPU seconds of a step, without background work."""


def measure(sides: Sides, shape: Shape, unmeasured: int) -> dict[str, Any]:
    """Let the sides take turns; return the measurements for JSON.

    Args:
        sides: of the training.
        shape: how much.
        unmeasured: steps before the measured ones, on either side of every pair.
    """
    growth, clock, began_s = Growth(), Clock(), time.perf_counter()
    watched_steps = _warm_up(sides, shape)
    plain, watched = Side([], []), Side([], [])
    own_s: list[float] = []
    before_s, before_steps = clock.beside_s(), watched_steps
    for pair in range(shape.pairs):
        if pair >= FEWEST_PAIRS and _enough(sides, shape, began_s):
            break
        for side in (plain, watched) if pair % 2 else (watched, plain):
            if side is plain:
                with sides.unwatched():
                    run(sides.plain, unmeasured)
                    _timed(sides.plain, shape.steps, plain, clock)
            else:
                run(sides.watched, unmeasured)
                told_s = sides.own_s() if sides.own_s else 0.0
                _timed(sides.watched, shape.steps, watched, clock)
                if sides.own_s:
                    own_s.append((sides.own_s() - told_s) / shape.steps)
                watched_steps += unmeasured + shape.steps
                time.sleep(SETTLE_S)
                sides.settle()
    beside_s = (clock.beside_s() - before_s) / (watched_steps - before_steps)
    peak_mb = growth.peak_mb()
    sides.close()
    return {
        "plain_s": plain.step_s,
        "watched_s": watched.step_s,
        "plain_cpu_s": plain.training_s,
        "watched_cpu_s": [training_s + beside_s for training_s in watched.training_s],
        "own_s": own_s,
        "bytes_per_step": written(sides.folder) / watched_steps,
        "peak_mb": peak_mb,
    }


def follow_memory(sides: Sides, steps: int) -> dict[str, Any]:
    """Run only watched steps; return the resident memory over time."""
    growth = Growth()
    every = max(1, steps // SAMPLES)
    resident = []
    for step in range(steps):
        if step % every == 0:
            resident.append(resident_mb())
        sides.watched()
    resident.append(resident_mb())
    peak_mb = growth.peak_mb()
    sides.close()
    return {
        "resident_mb": resident,
        "peak_mb": peak_mb,
        "bytes_per_step": written(sides.folder) / steps,
    }


def run(step: Callable[[], object], steps: int) -> None:
    """Run steps."""
    for _ in range(steps):
        step()


def written(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _timed(step: Callable[[], object], steps: int, into: Side, clock: Clock) -> None:
    times, spent_s, before = [], clock.training_s(), time.perf_counter()
    for _ in range(steps):
        step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
    into.step_s.append(times)
    into.training_s.append((clock.training_s() - spent_s) / steps)


def _warm_up(sides: Sides, shape: Shape) -> int:
    began_s, steps = time.perf_counter(), 0
    while steps < shape.warm_up and time.perf_counter() - began_s < shape.most_s / 5:
        sides.watched()
        steps += 1
    time.sleep(SETTLE_S)
    sides.settle()
    return steps


def _enough(sides: Sides, shape: Shape, began_s: float) -> bool:
    late = time.perf_counter() - began_s > shape.most_s
    return late or written(sides.folder) > 1e9 * shape.most_gb
