"""Comparable parts of two runs, in the order in which a step computes them.

Shape suffixes: K = moments (steps, and micro-batches in them), T = tensors.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mothtrap.core.digests import MODULUS, ROWS
from mothtrap.core.kinds import kind_of, usual
from mothtrap.core.measured import DIGEST, DIGEST_SUM
from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Floats, Ints, Matrix, Series
from mothtrap.reader.run import Run
from mothtrap.reader.series.merged import MERGED, Merged


class Phase(enum.IntEnum):
    """Parts of a step, in the order in which they happen."""

    STATE = 0
    BATCH = 1
    RANDOM = 2
    TARGET = 3
    FORWARD = 4
    LOSS = 5
    GRADIENT = 6
    SETTINGS = 7

    @property
    def words(self) -> str:
        """Return the phase in one or two words."""
        return _WORDS[self]


_WORDS: Final = {
    Phase.STATE: "weights",
    Phase.BATCH: "batch",
    Phase.RANDOM: "random numbers",
    Phase.TARGET: "targets",
    Phase.FORWARD: "activations",
    Phase.LOSS: "loss",
    Phase.GRADIENT: "gradients",
    Phase.SETTINGS: "settings",
}


MICRO_BATCHES: Final = 1 << 10
"""Number of positions within a step."""
_WHOLE = MICRO_BATCHES - 1
"""Position of values that belong to all micro-batches of a step."""
STATISTICS: Final = ("l2", "abs_mean", "abs_max")
"""Statistics of a tensor that hardly depend on the order of summation."""
_SETTINGS = ("lr", "clip_limit", "loss_scale")
_DIGEST_PHASES = {
    "weight": Phase.STATE,
    "bias": Phase.STATE,
    "buffer": Phase.STATE,
    "batch": Phase.BATCH,
    "input": Phase.BATCH,
    "target": Phase.TARGET,
    "gradient": Phase.GRADIENT,
}
_PHASES = {"state": Phase.STATE, "forward": Phase.FORWARD, "gradient": Phase.GRADIENT}
"""Phase of the tensors of a kind, by origin of the kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Values of a type at several moments of a run.

    Attributes:
        phase: phase of the step.
        sort: kind of the tensors, if statistics are stored by kind.
        method: type of the values: `digests`, `numbers`, or a statistic.
        names: names of the columns, in the order in which they are produced.
        key_K: `step * MICRO_BATCHES + place`, ascending.
        value_KT: float64; NaN may be a value.
        present_KT: whether a value exists.
        complete: a column that is missing at a moment did not exist, rather than being skipped.
        location_T: `file:line` that produced each column.
    """

    phase: Phase
    sort: str
    method: str
    names: tuple[str, ...]
    key_K: Ints
    value_KT: Floats
    present_KT: Bools
    complete: bool = False
    location_T: tuple[str | None, ...] = ()


def tables(run: Run, worker: Merged | int | None) -> Iterator[Table]:
    """Yield all comparable tables, for one worker or for all workers combined."""
    yield from _digests(run, worker)
    scalars = run.scalars(mode=Mode.TRAIN, worker=worker)
    losses = [series for series in scalars if series.name == "loss"]
    yield _pivot(Phase.LOSS, "numbers", losses, lambda s: f"loss:{s.of}", place=_WHOLE)
    settings = [series for series in scalars if series.name in _SETTINGS]
    yield _pivot(Phase.SETTINGS, "numbers", settings, _scalar_name, place=_WHOLE)
    norms = [series for series in scalars if series.name == "gradient_norm"]
    yield _pivot(Phase.GRADIENT, "numbers", norms, _scalar_name, place=_WHOLE)
    for kind in sorted(map(kind_of, usual()), key=lambda kind: _PHASES[kind.of]):
        found = run.stats(kind.name, statistics=STATISTICS, mode=Mode.TRAIN, worker=worker)
        for matrix in found.values():
            if len(matrix):
                yield _of_matrix(_PHASES[kind.of], matrix)


def rows_of_steps(run: Run) -> tuple[Ints, Ints]:
    """Return, for each step, the sum of the digests of all workers' rows.

    Returns:
        Steps at which every worker reported its rows, ascending, and the sums modulo
        `core.digests.MODULUS`.
    """
    found = []
    for worker in run.workers:
        own: dict[int, int] = {}
        for series in run.scalars(f"{DIGEST}:{ROWS}*", mode=Mode.TRAIN, worker=worker):
            for step, value in zip(series.steps_S.tolist(), series.values_S.tolist(), strict=True):
                own[step] = (own.get(step, 0) + int(value)) % MODULUS
        found.append(own)
    shared = sorted(set.intersection(*(set(own) for own in found))) if found else []
    sums = [sum(own[step] for own in found) % MODULUS for step in shared]
    return np.array(shared, np.int64), np.array(sums, np.int64)


def _digests(run: Run, worker: Merged | int | None) -> Iterator[Table]:
    if worker == MERGED:
        return
    for method in (DIGEST, DIGEST_SUM):
        by_phase: dict[Phase, list[Series]] = {}
        for series in run.scalars(f"{method}:*", mode=Mode.TRAIN, worker=worker):
            head = series.of.partition(":")[0]
            phase = Phase.RANDOM if head.startswith("rng.") else _DIGEST_PHASES.get(head)
            if phase is not None and series.name == method:
                by_phase.setdefault(phase, []).append(series)
        for phase, found in by_phase.items():
            place = {Phase.STATE: 0, Phase.GRADIENT: _WHOLE}.get(phase)
            if phase is Phase.GRADIENT:
                found = found[::-1]  # the last layer gets its gradient first
            kind = "digests" if method == DIGEST else "sums of bits"
            yield _pivot(phase, kind, found, lambda s: s.of, place=place, complete=True)


def _scalar_name(series: Series) -> str:
    return f"{series.name}:{series.of}" if series.of else series.name


def _pivot(
    phase: Phase,
    method: str,
    found: Sequence[Series],
    name: Callable[[Series], str],
    *,
    place: int | None,
    complete: bool = False,
) -> Table:
    """Align series by step; `place` is a value's position in its step, None: its number in it."""
    keys = [_keys(series.steps_S, place) for series in found]
    key_K = np.unique(np.concatenate([np.empty(0, np.int64), *keys]))
    value_KT = np.full((len(key_K), len(found)), np.nan)
    present_KT = np.zeros((len(key_K), len(found)), np.bool_)
    for column, (own, series) in enumerate(zip(keys, found, strict=True)):
        row_S = np.searchsorted(key_K, own)
        value_KT[row_S, column], present_KT[row_S, column] = series.values_S, True
    names = tuple(name(series) for series in found)
    places = tuple(series.location for series in found)
    return Table(phase, "", method, names, key_K, value_KT, present_KT, complete, places)


def _keys(steps_S: Ints, place: int | None) -> Ints:
    if place is not None:
        keys: Ints = steps_S * MICRO_BATCHES + place
        return keys
    nth_S = np.arange(len(steps_S)) - np.searchsorted(steps_S, steps_S)
    numbered: Ints = steps_S * MICRO_BATCHES + np.minimum(nth_S, _WHOLE)
    return numbered


def _of_matrix(phase: Phase, matrix: Matrix) -> Table:
    order = slice(None, None, -1) if phase is Phase.GRADIENT else slice(None)
    key_K, first_K = np.unique(
        _keys(matrix.steps_S, 0 if phase is Phase.STATE else _WHOLE), return_index=True
    )
    return Table(
        phase,
        matrix.kind,
        matrix.statistic,
        tuple(tensor.identity for tensor in matrix.tensors[order]),
        key_K,
        matrix.values_ST[first_K][:, order],
        matrix.present_ST[first_K][:, order],
        location_T=tuple(tensor.location for tensor in matrix.tensors[order]),
    )
