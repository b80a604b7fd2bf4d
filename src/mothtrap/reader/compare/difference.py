"""First divergence of two runs: the step, and the first value in it that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from mothtrap.core.errors import QueryError
from mothtrap.reader.compare.comparable import (
    MICRO_BATCHES,
    STATISTICS,
    Phase,
    Table,
    rows_of_steps,
    tables,
)
from mothtrap.reader.compare.first_divergence import (
    BY_DIGEST,
    NEARLY,
    FirstDivergence,
    Pair,
    Tolerance,
    first_of,
)
from mothtrap.reader.run import Run
from mothtrap.reader.series.merged import MERGED

ACROSS_RTOL, ACROSS_ATOL = 1e-3, 1e-7
"""Tolerances for numbers that are sums of different parts, as with one and with two ranks. Chosen
by hand for float32 in a different order, over a few dozen steps.
"""
_DISCRETE = (Phase.BATCH, Phase.RANDOM, Phase.TARGET)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of one phase: its data, method and number of steps."""

    phase: str
    method: str
    steps: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a comparison of the steps of two runs.

    `exact`: bit for bit; otherwise within `rtol` and `atol`, or, if `measured`, within the
    differences that rounding causes.
    """

    first: FirstDivergence | None
    compared: tuple[Compared, ...]
    steps: int
    exact: bool
    rtol: float
    atol: float
    measured: bool = False
    notes: tuple[str, ...] = ()


def compare(
    first: Run,
    second: Run,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    ignore: Sequence[str] = (),
    perturbed: Run | None = None,
) -> Comparison:
    """Compare two runs step by step.

    Args:
        first: the first run.
        second: the second run.
        rtol: numbers count as equal if they differ by less than this share of the larger number;
            None: bit for bit if possible.
        atol: numbers also count as equal if they differ by less than this.
        ignore: globs over names to exclude from the comparison, e.g. `rng.*`.
        perturbed: a run like the first run whose initial weights were changed by their rounding
            error. Numbers count as equal if they differ by at most `ALLOWED` times their difference
            in that run. It is used if the runs have different numbers of ranks.

    Raises:
        QueryError: `perturbed` is given, and the runs have equal numbers of ranks, or other data.
    """
    apart = len(first.workers) != len(second.workers)
    given = Tolerance(rtol or 0.0, atol or 0.0)
    notes: list[str] = []
    if apart:
        given = Tolerance(
            ACROSS_RTOL if rtol is None else rtol, ACROSS_ATOL if atol is None else atol
        )
        notes.append(
            f"the runs have {len(first.workers)} and {len(second.workers)} ranks, so each run is "
            "compared as one rank: batches by the sum of their row digests, and random states "
            "not at all"
        )
    if perturbed is not None:
        _refuse_other(first, perturbed, apart=apart)
    workers = [None] if apart else list(first.workers)
    pairs = [
        pair
        for worker in workers
        for pair in _pairs(first, second, perturbed, worker, given, notes, tuple(ignore))
    ]
    found = [hit for pair in pairs if (hit := first_of(pair)) is not None]
    chosen = min(found, key=lambda hit: hit[0], default=None)
    return Comparison(
        first=chosen[1] if chosen is not None else None,
        compared=_summary(pairs),
        steps=_steps(pairs),
        exact=given.exact,
        rtol=given.rtol,
        atol=given.atol,
        measured=perturbed is not None,
        notes=tuple(dict.fromkeys(notes)),
    )


def _pairs(
    first: Run,
    second: Run,
    perturbed: Run | None,
    worker: int | None,
    given: Tolerance,
    notes: list[str],
    ignore: tuple[str, ...],
) -> Iterator[Pair]:
    """Yield items of both runs."""
    which = MERGED if worker is None else worker
    theirs = {(t.phase, t.sort, t.method): t for t in tables(second, which)}
    third = {(t.phase, t.sort, t.method): t for t in tables(perturbed, which)} if perturbed else {}
    if worker is None:
        yield from _rows_pair(first, second)
    for mine in tables(first, which):
        other = theirs.get((mine.phase, mine.sort, mine.method))
        if other is None or not (len(mine.key_K) and len(other.key_K)):
            continue
        mine, other = _without(mine, ignore), _without(other, ignore)
        if mine.phase is Phase.RANDOM:
            mine, other = _drawn_from(mine, other, notes)
        if not mine.names or not other.names:
            continue
        if not given.exact and mine.method in BY_DIGEST and mine.phase not in _DISCRETE:
            continue
        tolerance = Tolerance() if mine.method in BY_DIGEST else given
        if mine.method in STATISTICS:
            tolerance = Tolerance(max(given.rtol, NEARLY), given.atol)
        rounded = third.get((mine.phase, mine.sort, mine.method))
        if rounded is not None:
            rounded = _aligned(mine, rounded)
        yield Pair(mine, _aligned(mine, other), tolerance, worker, rounded)


def _refuse_other(first: Run, perturbed: Run, *, apart: bool) -> None:
    if not apart:
        raise QueryError(
            "--perturbed measures a tolerance between runs with different numbers of ranks, but "
            "these have equal numbers: compare them without it"
        )
    if perturbed.info is None or not perturbed.info.config.get("perturb"):
        raise QueryError(f"{perturbed.id} was not recorded with `mothtrap run --perturb`")
    if first.info is not None and perturbed.info.command != first.info.command:
        raise QueryError(
            f"{perturbed.id} was started with a different command than {first.id}, so it does not "
            f"show how rounding changes {first.id}"
        )
    if len(perturbed.workers) != len(first.workers):
        raise QueryError(f"{perturbed.id} has a different number of ranks than {first.id}")


def _rows_pair(first: Run, second: Run) -> Iterator[Pair]:
    both = []
    for run in (first, second):
        step_K, sum_K = rows_of_steps(run)
        values = sum_K.astype(np.float64)[:, None]
        shown = np.ones(values.shape, np.bool_)
        key_K = step_K * MICRO_BATCHES
        names = ("rows of the batch",)
        both.append(Table(Phase.BATCH, "", "sums of digests", names, key_K, values, shown))
    if all(len(table.key_K) for table in both):
        yield Pair(both[0], both[1], Tolerance(), None)


def _without(table: Table, ignore: tuple[str, ...]) -> Table:
    return _columns(
        table,
        [
            column
            for column, name in enumerate(table.names)
            if not any(fnmatchcase(name, pattern) for pattern in ignore)
        ],
    )


def _columns(table: Table, chosen: Sequence[int], names: Sequence[str] = ()) -> Table:
    if len(chosen) == len(table.names) and not names:
        return table
    picked = list(chosen)
    return Table(
        table.phase,
        table.sort,
        table.method,
        tuple(names) or tuple(table.names[column] for column in picked),
        table.key_K,
        table.value_KT[:, picked],
        table.present_KT[:, picked],
        table.complete,
        tuple(table.location_T[column] for column in picked) if table.location_T else (),
    )


def _drawn_from(first: Table, second: Table, notes: list[str]) -> tuple[Table, Table]:
    """Leave out unused generators, whose states are irrelevant."""
    idle = {
        name
        for name in first.names
        if name in second.names and all(_is_constant(t, name) for t in (first, second))
    }
    for name in sorted(idle):
        values = [t.value_KT[0, t.names.index(name)] for t in (first, second)]
        if values[0] != values[1]:
            notes.append(f"{name} differs from the start, but no step draws from it")
    kept = [
        _columns(t, [c for c, name in enumerate(t.names) if name not in idle])
        for t in (first, second)
    ]
    return kept[0], kept[1]


def _is_constant(table: Table, name: str) -> bool:
    value_K = table.value_KT[:, table.names.index(name)]
    return len(value_K) > 1 and bool((value_K == value_K[0]).all())


def _aligned(first: Table, second: Table) -> Table:
    """Give columns of the second run the names that they have in the first.

    Labels of losses and loaders contain lines and numbers, which an edit may change.
    """
    if first.phase not in (Phase.LOSS, Phase.BATCH, Phase.SETTINGS):
        return second
    mine = [name for name in first.names if name not in second.names]
    theirs = [name for name in second.names if name not in first.names]
    if not mine or len(mine) != len(theirs):
        return second
    renamed = dict(zip(theirs, mine, strict=True))
    names = [renamed.get(name, name) for name in second.names]
    return _columns(second, range(len(names)), names)


def _summary(pairs: Sequence[Pair]) -> tuple[Compared, ...]:
    found: dict[tuple[Phase, str], set[int]] = {}
    for pair in pairs:
        method = "statistics" if pair.first.method in STATISTICS else pair.first.method
        shared = np.intersect1d(pair.first.key_K, pair.second.key_K) // MICRO_BATCHES
        found.setdefault((pair.first.phase, method), set()).update(shared.tolist())
    return tuple(
        Compared(phase=phase.words, method=method, steps=len(steps))
        for (phase, method), steps in sorted(found.items())
        if steps
    )


def _steps(pairs: Sequence[Pair]) -> int:
    """Return the number of steps that both runs have."""
    every = [np.empty(0, np.int64)]
    for pair in pairs:
        every.append(np.intersect1d(pair.first.key_K, pair.second.key_K) // MICRO_BATCHES)
    return len(np.unique(np.concatenate(every)))
