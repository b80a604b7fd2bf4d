"""Infers invariants from the windows of healthy runs.

Candidates come from the runs. A candidate is kept only if it is true at every step of all runs,
using the same evaluation that later detects breaches. Bounds are wide, because the next healthy run
differs from the observed ones. A relation in which the runs differ by more than the bounds allow is
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mothtrap.core.breaches import Table, judge, tables
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.invariants import (
    Changes,
    Constant,
    Direction,
    Dtype,
    Invariant,
    Present,
    Range,
    Statement,
)
from mothtrap.core.needs import Need
from mothtrap.core.window import Floats, Window
from mothtrap.reader.run import Run
from mothtrap.reader.series.windows import WindowBuilder

MAX_STEPS = 10_000
"""Maximum number of steps of a run that are read; chosen by hand for the memory of a laptop."""

LEARNED = (
    Need(kinds=("gradient", "weight"), statistics=("l2", "nan", "inf"), steps=MAX_STEPS),
    Need(kinds=("weight",), statistics=("update_ratio",), steps=MAX_STEPS),
)
"""Series that are learned: the series of the default capture, so that checking adds no cost."""

COUNTS = ("micro_batches", "gradient_state", "stale_gradient")
"""Scalars that are counts or signs, for which a relation may be exact."""

SCALE_FREE = "update_ratio of weight"
"""Series that can be compared between programs of any size."""

MIN_STEPS = 20
"""Minimum number of steps of a run for learning; chosen by hand."""
MIN_LOOKS = 3
"""Minimum number of steps of each training run at which a statistic must have been captured. Chosen
by hand: weights are inspected rarely, and even more rarely on a busy machine.
"""
MARGIN, MARGIN_OF_ONE_RUN = 10.0, 100.0
"""Factor between a bound and the observed values, for several runs and for one run. Chosen by hand:
seeds of one program differ by a factor below 10, and a single run says little about the next one.
"""
RATE_MARGIN = 3.0
"""The same factor for learning rates, which users set; chosen by hand."""
PATIENCE = 20
"""Number of steps for which a value may be absent or 0 without a violation. Chosen by hand: an
expert may receive no rows, and units may be dead for a batch.
"""
NEAR_ZERO = 1e-3
"""Share of its median to which a value may fall and still count as never zero."""
CHANGES_OFTEN = 4
"""Minimum number of changes of a learning rate schedule, which must occur in each part of the run.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """All steps of one worker in one attempt; `run` is the name of the run."""

    run: str
    window: Window


def trainings_of(run: Run) -> list[Training]:
    """Return each worker in each attempt of a run with enough steps to learn from.

    Only the last `MAX_STEPS` steps of a long run are read.
    """
    found = []
    for _, rank, _, records in run.histories():
        builder = WindowBuilder(LEARNED, rank, steps=MAX_STEPS)
        for record in records:
            builder.feed(record)
        window = builder.window(0.0)
        if window.total_steps >= MIN_STEPS:
            found.append(Training(str(run.path), window))
    return found


def learn(trainings: Sequence[Training]) -> tuple[Invariant, ...]:
    """Return the invariants that hold in all training runs, invariants on scalars first.

    Args:
        trainings: healthy training runs, with at least `MIN_STEPS` steps each.
    """
    windows = [training.window for training in trainings]
    runs = len({training.run for training in trainings})
    margin = MARGIN if runs > 1 else MARGIN_OF_ONE_RUN
    with np.errstate(all="ignore"):  # values may be infinite
        proposed = [
            *_of_counts(windows),
            *_of_rates(windows),
            *_of_losses(windows, margin),
            *_of_presence(windows),
            *_of_sizes(windows, margin),
            *_of_dtypes(windows),
        ]
        return tuple(invariant for invariant in proposed if _holds(invariant, windows))


def _holds(invariant: Invariant, windows: Iterable[Window]) -> bool:
    try:
        return all(judge(invariant, window) is None for window in windows)
    except NotEnoughData:
        return False


def _everywhere(about: Statement, windows: Sequence[Window]) -> list[list[Table]]:
    """Return the tables of each training run for a statement; empty if data is missing."""
    probe = Range(of=about.of, tensors=about.tensors)
    found = [tables(probe, window) for window in windows]
    looks = [sum(int(table.present_ST.any(axis=1).sum()) for table in each) for each in found]
    return found if min(looks, default=0) >= MIN_LOOKS else []


def _of_counts(windows: Sequence[Window]) -> Iterator[Invariant]:
    for name in COUNTS:
        found = _everywhere(Statement(of=name), windows)
        if not found:
            continue
        least, most = _extremes([_values(each) for each in found])
        if least == most:
            yield Range(of=name, at_least=least, at_most=most)
        elif least > 0:
            yield Range(of=name, at_least=least)


def _of_rates(windows: Sequence[Window]) -> Iterator[Invariant]:
    if _everywhere(Statement(of="lr"), windows):
        yield Range(of="lr", at_least=0.0)
    for of in _owners("lr", windows):
        found = _everywhere(Statement(of=of), windows)
        if not found:
            continue
        least, most = _extremes([_values(each) for each in found])
        constant = least == most
        if most > 0:
            low = _rounded(least / RATE_MARGIN) if constant else None
            yield Range(of=of, at_least=low, at_most=_rounded(most * RATE_MARGIN))
        yield Constant(of=of)
        if all(_changes(each) for each in found):
            yield Direction(of=of, never="rises")
            yield Direction(of=of, never="falls")
            yield from _schedule(of, found)


def _schedule(of: str, found: list[list[Table]]) -> Iterator[Invariant]:
    """Return the statement that a rate changes within twice the longest time without a change."""
    longest, often = 0, True
    for table in (table for each in found for table in each):
        values_S, steps_S = table.values_ST[:, 0], table.steps_S
        moves = np.flatnonzero(values_S[1:] != values_S[:-1]) + 1
        edges_S = steps_S[np.r_[0, moves, len(steps_S) - 1]]
        still = int(np.diff(edges_S).max())
        often &= len(moves) >= CHANGES_OFTEN and still * CHANGES_OFTEN <= steps_S[-1] - steps_S[0]
        longest = max(longest, still)
    if often:
        yield Changes(of=of, within=max(2 * longest, CHANGES_OFTEN))


def _of_losses(windows: Sequence[Window], margin: float) -> Iterator[Invariant]:
    found = _everywhere(Statement(of="loss"), windows)
    if not found:
        return
    values = [_values(each) for each in found]
    least, _ = _extremes(values)
    bound = _upper(values, margin)
    if least >= 0:
        yield Range(of="loss", at_least=0.0, at_most=bound)
    else:
        yield Range(of="loss")
    yield Present(of="loss", patience=PATIENCE)


def _of_presence(windows: Sequence[Window]) -> Iterator[Invariant]:
    """Yield statements that gradients exist at each step of an optimizer, by optimizer."""
    named = _common("l2 of gradient", windows)
    if not named:
        return
    rates = _owners("lr", windows)
    for at in rates if len(rates) > 1 else [""]:
        kept = tuple(
            name
            for name in named
            if _holds(Present(of="l2 of gradient", tensors=(name,), at=at), windows)
        )
        if kept:
            yield Present(of="l2 of gradient", tensors=kept, at=at, patience=PATIENCE)


def _of_sizes(windows: Sequence[Window], margin: float) -> Iterator[Invariant]:
    for kind in ("gradient", "weight"):
        for statistic in ("nan", "inf"):
            if _everywhere(Statement(of=f"{statistic} of {kind}"), windows):
                yield Range(of=f"{statistic} of {kind}", at_least=0.0, at_most=0.0)
    for of in ("l2 of gradient", "l2 of weight", SCALE_FREE):
        found = _everywhere(Statement(of=of), windows)
        if not found:
            continue
        bound = _upper([_values(each) for each in found], margin, agreed=of != SCALE_FREE)
        common = _common(of, windows)
        moving, still = _never_zero(found)
        away = tuple(name for name in common if name in moving)
        if bound is not None:
            yield Range(of=of, at_most=bound)
        if away:
            every = len(away) == len(_names(found))
            chosen = ("*",) if every else away
            yield Range(of=of, tensors=chosen, above=0.0, patience=PATIENCE)
        if of == SCALE_FREE and (unmoved := tuple(name for name in common if name in still)):
            yield Range(of=of, tensors=unmoved, at_least=0.0, at_most=0.0)


def _never_zero(found: list[list[Table]]) -> tuple[set[str], set[str]]:
    """Return the tensors that stay far from 0, and the tensors that are always 0."""
    away: dict[str, bool] = {}
    still: dict[str, bool] = {}
    for table in (table for each in found for table in each):
        for place, name in enumerate(table.names):
            values_S = table.values_ST[table.present_ST[:, place], place]
            if len(values_S):
                near = NEAR_ZERO * float(np.median(values_S))
                sound = bool(np.isfinite(values_S).all() and values_S.min() > near)
                away[name] = away.get(name, True) and sound
                still[name] = still.get(name, True) and not values_S.any()
    return {name for name in away if away[name]}, {name for name in still if still[name]}


def _of_dtypes(windows: Sequence[Window]) -> Iterator[Invariant]:
    for of in ("l2 of weight", "l2 of gradient"):
        found = _everywhere(Statement(of=of), windows)
        dtypes = sorted({dtype for each in found for table in each for dtype in table.dtypes})
        same = len(_common(of, windows)) == len(_names(found))
        if same and len(dtypes) == 1 and dtypes[0]:
            yield Dtype(of=of, dtypes=tuple(dtypes))


def _owners(name: str, windows: Sequence[Window]) -> list[str]:
    """Return `name:owner` of the scalars that every training run has."""
    each = [dict.fromkeys(s.of for s in window.scalars(name)) for window in windows]
    return [f"{name}:{of}" for of in each[0] if of and all(of in other for other in each)]


def _common(of: str, windows: Sequence[Window]) -> tuple[str, ...]:
    """Return the tensors that every training run has."""
    probe = Range(of=of)
    each = [_names([tables(probe, window)]) for window in windows]
    return tuple(name for name in each[0] if all(name in other for other in each))


def _names(found: Iterable[Iterable[Table]]) -> dict[str, None]:
    """Return the names of all tensors of some tables, in order."""
    return dict.fromkeys(name for each in found for table in each for name in table.names)


def _values(each: Sequence[Table]) -> Floats:
    """Return every value of some tables; shape (N,)."""
    values_N: Floats = np.concatenate([table.values_ST[table.present_ST] for table in each])
    return values_N


def _extremes(values: Sequence[Floats]) -> tuple[float, float]:
    return min(float(v.min()) for v in values), max(float(v.max()) for v in values)


def _upper(values: Sequence[Floats], margin: float, *, agreed: bool = True) -> float | None:
    """Return a bound above all observed values.

    If `agreed` is required, None if the largest values differ by more than the margin.
    """
    largest = [float(np.abs(values_N).max()) for values_N in values]
    if not np.isfinite(largest).all() or max(largest) <= 0:
        return None
    apart = max(largest) > margin * min(largest)
    return None if agreed and apart else _rounded(margin * max(largest))


def _changes(each: Sequence[Table]) -> bool:
    return all(len(np.unique(table.values_ST)) > 1 for table in each)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
