"""Segments: conditions on columns that select rows, and the search for those with a high value.

Shape suffixes: R = rows, L = literals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.table import MAX_DISTINCT, Column, Table

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

BINS: Final = 8
FINE_BINS: Final = 64
"""Quantiles at which the bounds of a segment are moved once it was found."""
MAX_LEVELS: Final = 100
"""Number of levels of a category that are tried, the most frequent first: 1 % of the rows each."""
MAX_LITERALS: Final = 1_000
"""Number of paired literals, highest scores first; 1,000 literals take 2 s in 10,000 rows."""
MAX_STARTS: Final = 200
"""Pairs to which a third literal is added; chosen by hand."""
LEAST_ROWS: Final = 30
LEAST_SHARE: Final = 0.01
LONGER_GAIN: Final = 1.3
"""A longer segment must have a mean that is this many times higher. Measured: without it a third
literal on a column of noise was added in every run."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A condition on one column: a range of numbers, one value or level, or a missing value.

    `low` and `high` bound `low <= x < high`; `level` is an index of a category; both None selects
    the rows without a value.
    """

    column: str
    low: float | None = None
    high: float | None = None
    level: str | None = None

    def mask(self, column: Column) -> Mask:
        """Return a mask (R,) of the rows that meet the condition."""
        if column.number_R is not None and (self.low is not None or self.high is not None):
            low = -math.inf if self.low is None else self.low
            high = math.inf if self.high is None else self.high
            if low == high:
                return np.asarray(column.number_R == low)
            with np.errstate(invalid="ignore"):
                return (column.number_R >= low) & (column.number_R < high)
        if self.level is not None:
            known = {name: k for k, name in enumerate(column.levels)}
            assert column.code_R is not None
            return np.asarray(column.code_R == known.get(self.level, -2))
        return column.missing_R

    def as_code(self) -> str:
        """Return the condition as text for `DataFrame.eval` of pandas."""
        name = self.column if self.column.isidentifier() else f"`{self.column}`"
        if self.level is not None:
            return f"{name} == {self.level!r}"
        if self.low is None and self.high is None:
            return f"{name}.isna()"
        if self.low == self.high:
            return f"{name} == {float(self.low or 0)!r}"
        bounds = [] if self.low is None else [f"{name} >= {float(self.low)!r}"]
        bounds += [] if self.high is None else [f"{name} < {float(self.high)!r}"]
        return " and ".join(bounds)

    def __str__(self) -> str:
        name = self.column
        if self.level is not None:
            return f"{name} = {self.level}"
        if self.low is None and self.high is None:
            return f"{name} is missing"
        if self.low == self.high:
            return f"{name} = {_number(self.low)}"
        if self.high is None:
            return f"{name} >= {_number(self.low)}"
        if self.low is None:
            return f"{name} < {_number(self.high)}"
        return f"{_number(self.low)} <= {name} < {_number(self.high)}"


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that meet all of several conditions."""

    literals: tuple[Literal, ...]

    def mask(self, table: Table) -> Mask:
        """Return a mask (R,) of the rows that belong to the segment."""
        columns = {column.name: column for column in table.searched}
        found_R = np.ones(len(table), bool)
        for literal in self.literals:
            found_R &= literal.mask(columns[literal.column])
        return found_R

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns used in the conditions."""
        return tuple(dict.fromkeys(literal.column for literal in self.literals))

    def as_code(self) -> str:
        """Return the conditions as text for `DataFrame.eval` of pandas."""
        return " and ".join(literal.as_code() for literal in self.literals)

    def __str__(self) -> str:
        return " and ".join(map(str, self.literals))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that was found.

    `excess` is the mean of the value within minus the mean of all rows; `z` measures it in
    standard errors.
    """

    segment: Segment
    mask_R: Mask
    z: float
    excess: float


def search(
    table: Table,
    value_R: Floats,
    *,
    most: int,
    longest: int = 3,
    is_enough: Callable[[Mask], bool] = lambda _: True,
    spend: Callable[[], None] = lambda: None,
) -> Iterator[Candidate]:
    """Yield segments with a high mean value, clearest first.

    After each segment, its excess is removed from the values, so that each fault is reported once.

    Args:
        table: the rows.
        value_R: a number for each row, such as its loss.
        most: Largest number of segments.
        longest: Largest number of conditions in a segment.
        is_enough: whether the effect in the rows of a mask is large enough.
        spend: called between long computations; raises when no time is left.
    """
    space = _Space(table, value_R)
    left_R = value_R.astype(np.float64).copy()
    for _ in range(most):
        found = space.best(left_R, longest, is_enough, spend)
        if found is None:
            return
        yield found
        rest = left_R[~found.mask_R]
        left_R[found.mask_R] -= left_R[found.mask_R].mean() - (rest.mean() if len(rest) else 0.0)


def literals_of(columns: Iterable[Column]) -> Iterator[Literal]:
    """Yield the conditions to try: ranges, thresholds, values, levels, missing values."""
    for column in columns:
        if column.missing_R.any() and not column.missing_R.all():
            yield Literal(column.name)
        if column.code_R is not None:
            yield from (Literal(column.name, level=name) for name in column.levels[:MAX_LEVELS])
            continue
        known = column.known_R
        if not len(known) or known.min() == known.max():
            continue
        distinct = np.unique(known)
        if len(distinct) <= MAX_DISTINCT:
            yield from (Literal(column.name, float(v), float(v)) for v in distinct)
            cuts = distinct[1:] if len(distinct) > 2 else distinct[:0]
        else:
            cuts = np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))
            pairs = itertools.pairwise(map(float, cuts))
            yield from (Literal(column.name, low, high) for low, high in pairs)
        for cut in map(float, cuts):
            yield Literal(column.name, low=cut)
            yield Literal(column.name, high=cut)


class _Space:
    """All literals of a table with their rows, and the sums over pairs of them."""

    def __init__(self, table: Table, value_R: Floats) -> None:
        self._table, self._value_R = table, value_R
        self._columns = {column.name: column for column in table.searched}
        count = len(table)
        self._least = max(LEAST_ROWS, math.ceil(LEAST_SHARE * count))
        kept = []
        for literal in literals_of(table.searched):
            mask_R = literal.mask(self._columns[literal.column])
            if self._least <= mask_R.sum() <= count - self._least:
                kept.append((literal, mask_R))
        if len(kept) > MAX_LITERALS:
            scores = [abs(_z(mask_R, value_R)) for _, mask_R in kept]
            best = np.sort(np.argsort(scores)[::-1][:MAX_LITERALS])
            kept = [kept[i] for i in best]
        self._literals = [literal for literal, _ in kept]
        masks = [mask_R for _, mask_R in kept]
        self._mask_LR = np.array(masks, np.float32).reshape(len(masks), count)
        self._count_LL: npt.NDArray[np.float32] | None = None

    def best(
        self,
        value_R: Floats,
        longest: int,
        is_enough: Callable[[Mask], bool],
        spend: Callable[[], None],
    ) -> Candidate | None:
        """Return the segment with the clearest excess; None if no effect is large enough."""
        if not self._literals:
            return None
        spread = float(value_R.std())
        if spread == 0:
            return None
        centred_R = ((value_R - value_R.mean()) / spread).astype(np.float32)
        starts = self._pairs(centred_R, longest, spend)
        found: Candidate | None = None
        for places in starts:
            candidate = self._candidate(places, value_R)
            if candidate is None or not is_enough(candidate.mask_R):
                continue
            if found is None or self._is_better(candidate, found):
                found = candidate
        if found is None:
            return None
        if len(found.segment.literals) == 2 and longest > 2:
            found = self._third(found, value_R, is_enough)
        return self._refined(found, value_R, is_enough)

    def _pairs(
        self, centred_R: npt.NDArray[np.float32], longest: int, spend: Callable[[], None]
    ) -> list[tuple[int, ...]]:
        """Return the positions of the best single literals and pairs, the best first."""
        sum_L = self._mask_LR @ centred_R
        count_L = self._mask_LR.sum(axis=1)
        total = self._mask_LR.shape[1]
        z_L = _scores(sum_L, count_L, total, self._least)
        order = np.argsort(-z_L)[:MAX_STARTS]
        found: list[tuple[float, tuple[int, ...]]]
        found = [(float(z_L[i]), (int(i),)) for i in order if z_L[i] > 0]
        if longest > 1:
            spend()
            if self._count_LL is None:
                self._count_LL = self._mask_LR @ self._mask_LR.T
            sum_LL = (self._mask_LR * centred_R) @ self._mask_LR.T
            z_LL = np.triu(_scores(sum_LL, self._count_LL, total, self._least), 1)
            flat = np.argpartition(-z_LL, min(MAX_STARTS, z_LL.size - 1), axis=None)[:MAX_STARTS]
            for i, j in zip(*np.unravel_index(flat, z_LL.shape), strict=True):
                same = self._literals[i].column == self._literals[j].column
                if z_LL[i, j] > 0 and not same:
                    found.append((float(z_LL[i, j]), (int(i), int(j))))
        found.sort(key=lambda each: -each[0])
        return [places for _, places in found]

    def _candidate(self, places: Sequence[int], value_R: Floats) -> Candidate | None:
        mask_R = np.all(self._mask_LR[list(places)] > 0, axis=0)
        segment = Segment(tuple(self._literals[i] for i in places))
        return self._measured(segment, mask_R, value_R)

    def _measured(self, segment: Segment, mask_R: Mask, value_R: Floats) -> Candidate | None:
        size = int(mask_R.sum())
        if not self._least <= size <= len(mask_R) - self._least:
            return None
        excess = float(value_R[mask_R].mean() - value_R.mean())
        return Candidate(segment, mask_R, _z(mask_R, value_R), excess)

    def _third(
        self, found: Candidate, value_R: Floats, is_enough: Callable[[Mask], bool]
    ) -> Candidate:
        """Add a third literal where it raises the score and the mean clearly."""
        best = found
        for place, literal in enumerate(self._literals):
            if literal.column in found.segment.columns:
                continue
            mask_R = found.mask_R & (self._mask_LR[place] > 0)
            longer = Segment((*found.segment.literals, literal))
            candidate = self._measured(longer, mask_R, value_R)
            if candidate and self._is_better(candidate, best) and is_enough(candidate.mask_R):
                best = candidate
        return best

    def _is_better(self, new: Candidate, old: Candidate) -> bool:
        """Return whether a candidate replaces another.

        A longer segment must also be better in the values before segments were removed; otherwise
        it only avoids the rows of an earlier segment.
        """
        longer = len(new.segment.literals) - len(old.segment.literals)
        if longer < 0:
            return not self._is_better(old, new)
        if longer == 0 or not self._gains(new, old):
            return new.z > old.z and longer == 0
        given = [
            Candidate(
                each.segment,
                each.mask_R,
                _z(each.mask_R, self._value_R),
                float(self._value_R[each.mask_R].mean() - self._value_R.mean()),
            )
            for each in (new, old)
        ]
        return self._gains(*given)

    def _gains(self, new: Candidate, old: Candidate) -> bool:
        """Return whether a candidate is better; each additional literal must pay off.

        Among so many literals the best of pure noise gains `2 log(literals)` in the square of the
        score, so each literal costs that much.
        """
        price = 2 * math.log(len(self._literals))
        longer = len(new.segment.literals) - len(old.segment.literals)
        if longer > 0 and new.excess <= LONGER_GAIN * old.excess:
            return False
        return new.z * abs(new.z) > old.z * abs(old.z) + price * longer

    def _refined(
        self, found: Candidate, value_R: Floats, is_enough: Callable[[Mask], bool]
    ) -> Candidate:
        """Move the bounds of ranges to where the score is highest, and add a second bound.

        Ranges wider than one bin are found with one bound, because only a few ranges are tried. A
        second bound costs as much as a literal.
        """
        price = 2 * math.log(len(self._literals))
        for place, literal in enumerate(found.segment.literals):
            column = self._columns[literal.column]
            if literal.low == literal.high or column.number_R is None:
                continue
            known = column.known_R
            cuts = np.unique(np.quantile(known, np.linspace(0, 1, FINE_BINS + 1)))
            if column.is_whole:
                cuts = np.unique(np.round(cuts))
            order = ("low", "high") if literal.low is not None else ("high", "low")
            for side in order:
                is_new = getattr(literal, side) is None
                moved = self._moved(found, place, side, cuts, value_R, is_enough)
                gain = moved.z * abs(moved.z) - found.z * abs(found.z)
                if gain > (price if is_new else 0):
                    found = moved
                    if is_new:  # the first bound was the best without the second
                        found = self._moved(found, place, order[0], cuts, value_R, is_enough)
        return found

    def _moved(
        self,
        found: Candidate,
        place: int,
        side: str,
        cuts: Floats,
        value_R: Floats,
        is_enough: Callable[[Mask], bool],
    ) -> Candidate:
        """Return the segment with the best value for one of its bounds."""
        literals = found.segment.literals
        others = Segment(literals[:place] + literals[place + 1 :]).mask(self._table)
        column = self._columns[literals[place].column]
        for cut in map(float, cuts):
            own = literals[place]
            low, high = (cut, own.high) if side == "low" else (own.low, cut)
            if low is not None and high is not None and low >= high:
                continue
            moved = Literal(own.column, low, high)
            segment = Segment((*literals[:place], moved, *literals[place + 1 :]))
            candidate = self._measured(segment, others & moved.mask(column), value_R)
            if candidate and candidate.z > found.z and is_enough(candidate.mask_R):
                found = candidate
        return found


def _scores(
    total: npt.NDArray[Any], count: npt.NDArray[Any], rows: int, least: int
) -> npt.NDArray[Any]:
    """Return sums of standardized values as standard errors; 0 if there are too few rows."""
    left = np.maximum(rows - count, 1)
    z: npt.NDArray[Any] = total / np.sqrt(np.maximum(count, 1) * left / rows)
    return np.where((count >= least) & (count <= rows - least), z, 0)


def _z(mask_R: Mask, value_R: Floats) -> float:
    """Return the excess of the mean within a mask, in standard errors of all rows."""
    spread, size, total = float(value_R.std()), int(mask_R.sum()), len(mask_R)
    if spread == 0 or not 0 < size < total:
        return 0.0
    gap = float(value_R[mask_R].sum()) - size * float(value_R.mean())
    return gap / (spread * math.sqrt(size * (total - size) / total))


def _number(value: float | None) -> str:
    assert value is not None
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"
