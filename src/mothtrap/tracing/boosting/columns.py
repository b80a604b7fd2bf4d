"""Analysis of the columns of a table: leaks, identifiers, codes, copies, sentinels, shifts.

Shape suffixes: R = rows, C = columns, L = levels of a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.trees import ColumnsSeen, TablesDiffer
from mothtrap.statistics.products import correlation
from mothtrap.tracing.boosting.samples import Sample

Floats = npt.NDArray[np.float64]
SHOWN: Final = 32
MAX_COLUMNS: Final = 256
"""Maximum number of columns that are analyzed individually, evenly spaced: about 0.3 ms each."""
MIN_ROWS: Final = 100
BINS: Final = 64
LEVELS: Final = (6, 1000)
ROWS_PER_LEVEL: Final = 5
SAME: Final = 0.99
"""Share of the labels above which a column is compared with them value by value."""
CODED: Final = 0.05
"""Minimum share of the label variance that levels must explain to count as codes; by hand."""
UNORDERED: Final = 0.6
"""Von Neumann's ratio of the levels' means: 1 without an order, near 0 if smooth; by hand."""
REPLICATED: Final = 0.7
"""Differences of neighboring levels count as real if they correlate at least this much between two
halves of the rows; chosen by hand."""
ALIKE: Final = 8
"""If at least this many integer columns have the same range, they count as measurements, such as
pixels, and not as codes. Chosen by hand."""
SENTINEL_SHARE: Final = 0.01
SENTINELS: Final = frozenset(
    sign * value
    for value in (99, 999, 9999, 99999, 999999, 1e9, 1e10, 2**31 - 1)
    for sign in (1, -1)
) | {-1.0, -(2.0**31)}
LABELS, ROUNDING = 100, 1e-6
"""Number of distinct labels above which labels are compared as numbers, and the share of their
variance that rounding may explain."""
RARE: Final = 0.05
"""If at most this share of the rows differs from the usual value, a few rows determine the spread.
Chosen by hand."""
MANY_LEVELS: Final = 50
"""Categories with at least this many values may be numbers by mistake. Chosen by hand."""
PARTS: Final = 24
SMOOTH: Final = 0.3
"""Von Neumann's ratio of the means of `PARTS` parts of the values below which a label follows the
numbers; chosen by hand. It is about 1 for arbitrary codes, with a standard deviation of 0.2."""
FOLLOWS: Final = (0.15, 6.0)
"""Minimum correlation of such a column with the label, also in standard errors. Chosen by hand."""
MOVED: Final = 3.0
"""Shift of a column's mean, in standard deviations of the training data, that is reported."""


def seen(
    sample: Sample,
    names: Sequence[str],
    label_R: Floats | None,
    *,
    step: int,
    fit: str,
    categorical: Collection[int],
    classes: bool,
) -> ColumnsSeen:
    """Describe the columns of the training table.

    Args:
        sample: rows of the table.
        names: names of the columns.
        label_R: label of each row of the whole table; None = unknown.
        step: step in progress.
        fit: label of the training run.
        categorical: columns that the library treats as categories.
        classes: labels are classes.
    """
    kept_RC = sample.kept_RC.astype(np.float64)
    columns = kept_RC.shape[1]
    looked_at = _chosen(columns)
    sentinels = {c: found for c in looked_at if (found := _sentinel(kept_RC[:, c])) is not None}
    telling: dict[int, float] = {}
    codes: list[int] = []
    same: list[int] = []
    followed: list[int] = []
    trend = None
    if label_R is not None and len(label_R) > sample.rows_R[-1] and len(kept_RC) >= MIN_ROWS:
        given_R = label_R[sample.rows_R]
        known_R = np.isfinite(given_R)
        if known_R.sum() >= MIN_ROWS and np.ptp(given_R[known_R]) > 0:
            given_R, rows_RC = given_R[known_R], kept_RC[known_R]
            telling = {c: _explained(rows_RC[:, c], given_R, classes) for c in looked_at}
            same = [c for c in looked_at if telling[c] > SAME and _is_label(rows_RC[:, c], given_R)]
            ordered = not classes or len(np.unique(given_R)) == 2  # numbers of classes have no mean
            alike = _alike(rows_RC) if ordered else set()
            trend = _trend(rows_RC[:, looked_at], given_R)
            followed = [
                c
                for c in looked_at
                if ordered and c in categorical and _follows(rows_RC[:, c], given_R)
            ]
            codes = [
                c
                for c in looked_at
                if ordered
                and c not in categorical
                and c not in sample.identifiers
                and c not in alike
                and _are_codes(rows_RC[:, c], given_R)
            ]
    most = sorted(telling, key=lambda c: -telling[c])[:3]
    with np.errstate(invalid="ignore"):
        infinite_C = np.isinf(kept_RC).sum(axis=0)
    empty_C = np.isnan(kept_RC).all(axis=0) & ~sample.spread_C
    return ColumnsSeen(
        step=step,
        fit=fit,
        looked_at=len(kept_RC),
        columns=columns,
        identifiers=_named(names, (c for c in sample.identifiers if c not in categorical)),
        codes=_named(names, codes),
        copies=tuple((names[a], names[b]) for a, b in _copies(sample)[:SHOWN]),
        empty=_named(names, np.flatnonzero(empty_C)),
        sentinels={names[c]: share for c, (_, share) in [*sentinels.items()][:SHOWN]},
        sentinel_values={names[c]: value for c, (value, _) in [*sentinels.items()][:SHOWN]},
        infinite={names[int(c)]: int(infinite_C[c]) for c in np.flatnonzero(infinite_C)[:SHOWN]},
        telling={names[c]: telling[c] for c in most},
        same_as_label=_named(names, same),
        ordered=_named(names, followed),
        trend=trend,
    )


def differences(
    train: Sample, other: Sample, names: Sequence[str], *, step: int, fit: str, site: str
) -> TablesDiffer | None:
    """Describe how an evaluation table differs from training; None if it hardly does.

    Identifier columns, which are in order of time or of insertion, are skipped.
    """
    if train.kept_RC.shape[1] != other.kept_RC.shape[1]:
        return None
    if train.names != other.names and sorted(train.names) == sorted(other.names):
        pairs = zip(train.names, other.names, strict=True)
        moved_C = [(here, there) for there, here in pairs if here != there]
        return TablesDiffer(
            step=step,
            fit=fit,
            site=site,
            columns=len(names),
            order=tuple(moved_C[:SHOWN]),
            by_name=True,
        )
    if min(len(train.kept_RC), len(other.kept_RC)) < MIN_ROWS:
        return None
    (mean_C, std_C), (there_C, spread_C) = _moments(train.kept_RC), _moments(other.kept_RC)
    with np.errstate(invalid="ignore", divide="ignore"):
        distance_C = np.abs(there_C - mean_C) / std_C
        stretched_C = np.abs(np.log(spread_C / std_C)) > np.log(10)
    varies_C = train.spread_C & (std_C > 0)
    stretched_C &= np.minimum(_unusual_share(train), _unusual_share(other)) > RARE
    apart_C = np.where(varies_C & np.isfinite(distance_C), distance_C, 0.0)
    apart_C[list(train.identifiers)] = 0.0
    moved = np.flatnonzero((apart_C > MOVED) | (stretched_C & varies_C & other.spread_C))
    order = _order(mean_C, std_C, there_C, spread_C, varies_C, train.identifiers)
    factor_C = np.exp(np.abs(np.log(np.maximum(spread_C, 1e-300) / np.maximum(std_C, 1e-300))))
    fixed = np.flatnonzero(train.spread_C & ~other.spread_C & (_minor_share(train) > 0.1))
    if not len(moved) and not order and not len(fixed):
        return None
    largest = [int(c) for c in sorted(moved, key=lambda c: -apart_C[c])][:SHOWN]
    return TablesDiffer(
        step=step,
        fit=fit,
        site=site,
        columns=len(mean_C),
        distance={names[c]: float(apart_C[c]) for c in largest},
        spread={names[c]: float(factor_C[c]) for c in largest if stretched_C[c]},
        order=tuple((names[a], names[b]) for a, b in order[:SHOWN]),
        constant=_named(names, fixed),
    )


def _order(
    mean_C: Floats,
    std_C: Floats,
    there_C: Floats,
    spread_C: Floats,
    varies_C: npt.NDArray[np.bool_],
    identifiers: Collection[int],
) -> list[tuple[int, int]]:
    """Yield pairs of an evaluation column and the training column that it matches instead.

    Only if each of several columns matches exactly one other column, and not its own.
    """
    chosen = [int(c) for c in np.flatnonzero(varies_C) if c not in identifiers]
    if not 2 <= len(chosen) <= MAX_COLUMNS:
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        scale_C = np.maximum(std_C[chosen], spread_C[chosen])
        far_CC = np.abs(there_C[chosen][:, None] - mean_C[chosen][None]) / scale_C[None]
        far_CC = far_CC + np.abs(np.log(spread_C[chosen][:, None] / std_C[chosen][None]))
    far_CC = np.where(np.isfinite(far_CC), far_CC, np.inf)
    own_C, nearest_C = np.diagonal(far_CC), far_CC.argmin(axis=1)
    out_C = (own_C > 1.0) & (far_CC.min(axis=1) < 0.2) & (nearest_C != np.arange(len(chosen)))
    pairs = [(chosen[int(c)], chosen[int(nearest_C[c])]) for c in np.flatnonzero(out_C)]
    distinct = len({b for _, b in pairs}) == len(pairs)
    return pairs if len(pairs) >= 2 and distinct else []


def _moments(kept_RC: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    values_RC = np.where(np.isfinite(kept_RC), kept_RC, np.nan).astype(np.float64)
    count_C = np.maximum(np.isfinite(values_RC).sum(axis=0), 1)
    mean_C = np.nansum(values_RC, axis=0) / count_C
    std_C = np.sqrt(np.nansum((values_RC - mean_C) ** 2, axis=0) / count_C)
    std_C[np.isfinite(values_RC).sum(axis=0) == 0] = np.nan
    return mean_C, std_C


def _unusual_share(sample: Sample) -> Floats:
    """Return, by column, the share of rows without the most frequent value."""
    kept_RC = np.sort(sample.kept_RC, axis=0)
    middle_C = kept_RC[len(kept_RC) // 2]  # the most frequent value, if most rows have it
    share_C: Floats = (sample.kept_RC != middle_C).mean(axis=0)
    return share_C


def _minor_share(sample: Sample) -> Floats:
    """Return, by column, the share of rows with the less frequent of two values."""
    first_C = sample.kept_RC[:1]
    with np.errstate(invalid="ignore"):
        equal_C = (sample.kept_RC == first_C).mean(axis=0)
    share_C: Floats = np.minimum(equal_C, 1 - equal_C)
    return share_C


def _chosen(columns: int) -> list[int]:
    places = np.linspace(0, columns - 1, min(columns, MAX_COLUMNS))
    return [int(place) for place in np.unique(places.astype(int))]


def _named(names: Sequence[str], columns: Any) -> tuple[str, ...]:
    return tuple(names[c] for c in [*columns][:SHOWN])


def _copies(sample: Sample) -> list[tuple[int, int]]:
    first: dict[bytes, int] = {}
    found = []
    for column in range(sample.kept_RC.shape[1]):
        if not sample.spread_C[column]:
            continue
        held = np.ascontiguousarray(sample.kept_RC[:, column]).tobytes()
        if held in first:
            found.append((first[held], column))
        first.setdefault(held, column)
    return found


def _sentinel(values_R: Floats) -> tuple[float, float] | None:
    """Return a value far outside all others that stands for missing values, and its share."""
    finite_R = values_R[np.isfinite(values_R)]
    if len(finite_R) < MIN_ROWS:
        return None
    low, high = finite_R.min(), finite_R.max()
    for value in (low, high):
        if float(value) not in SENTINELS:
            continue
        others_R = finite_R[finite_R != value]
        share = 1 - len(others_R) / len(finite_R)
        if share < SENTINEL_SHARE or len(others_R) < MIN_ROWS // 2:
            continue
        span = float(others_R.max() - others_R.min())
        gap = float(min(np.abs(others_R - value)))
        alone = gap > span if value != -1 else others_R.min() >= 1 and span > LEVELS[1]
        if alone and len(np.unique(others_R)) > 2:
            return float(value), share
    return None


def _explained(values_R: Floats, label_R: Floats, classes: bool) -> float:
    """Return the share of the label that a column explains alone, on rows not used for the fit.

    For classes, this is the share of the errors made by always predicting the most frequent class.
    """
    learned, judged = slice(0, None, 2), slice(1, None, 2)
    known = values_R[learned][np.isfinite(values_R[learned])]
    if len(known) < MIN_ROWS // 2 or np.ptp(known) == 0:
        return 0.0
    edges = np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1])
    tied = edges[1:][np.diff(edges) == 0]  # a value that many rows have gets its own bin
    edges = np.unique(np.concatenate([edges, tied, np.nextafter(tied, np.inf)]))
    bin_R = np.searchsorted(edges, values_R, side="right")
    bin_R[~np.isfinite(values_R)] = len(edges) + 1
    count = len(edges) + 2
    if classes:
        levels, class_R = np.unique(label_R, return_inverse=True)
        votes = np.zeros((count, len(levels)))
        np.add.at(votes, (bin_R[learned], class_R[learned]), 1)
        wrong = float((votes.argmax(axis=1)[bin_R[judged]] != class_R[judged]).mean())
        base = 1 - float(np.bincount(class_R[judged]).max()) / len(class_R[judged])
        return 1 - wrong / base if base else 0.0
    total, number = (
        np.bincount(bin_R[learned], weights=weights, minlength=count)
        for weights in (label_R[learned], None)
    )
    mean = np.where(number > 0, total / np.maximum(number, 1), label_R[learned].mean())
    left = float(((label_R[judged] - mean[bin_R[judged]]) ** 2).mean())
    spread = float(label_R[judged].var())
    return max(1 - left / spread, _line(values_R[judged], label_R[judged])) if spread else 0.0


def _line(values_R: Floats, label_R: Floats) -> float:
    """Return the share of the label variance that a straight line explains."""
    known_R = np.isfinite(values_R)
    values_R, label_R = values_R[known_R], label_R[known_R]
    if len(values_R) < MIN_ROWS // 2 or np.ptp(values_R) == 0 or np.ptp(label_R) == 0:
        return 0.0
    return correlation(values_R, label_R) ** 2 * float(known_R.mean())


def _are_codes(values_R: Floats, label_R: Floats) -> bool:
    """Return whether levels of whole numbers explain the label without an order."""
    known_R = np.isfinite(values_R)
    values_R, label_R = values_R[known_R], label_R[known_R]
    if len(values_R) < MIN_ROWS or (values_R != np.round(values_R)).any():
        return False
    levels_L, index_R = np.unique(values_R, return_inverse=True)
    if not LEVELS[0] <= len(levels_L) <= min(LEVELS[1], len(values_R) // ROWS_PER_LEVEL):
        return False
    count_L = np.bincount(index_R)
    mean_L = np.bincount(index_R, weights=label_R) / count_L
    spread = float(label_R.var())
    if not spread:
        return False
    rows, between = len(values_R), float((count_L * (mean_L - label_R.mean()) ** 2).sum())
    within = 1 - between / rows / spread
    explained = 1 - within * (rows - 1) / (rows - len(levels_L))
    if explained < CODED:
        return False
    return _ratio(mean_L, count_L) > UNORDERED and _replicates(index_R, label_R)


def _trend(values_RC: Floats, label_R: Floats) -> float | None:
    """Return the largest magnitude of the correlation of a column with the label."""
    values_RC = values_RC[:, np.isfinite(values_RC).all(axis=0)]
    varying = [values_R for values_R in values_RC.T if np.ptp(values_R) > 0]
    return max((abs(correlation(values_R, label_R)) for values_R in varying), default=None)


def _follows(values_R: Floats, label_R: Floats) -> bool:
    """Return whether the label rises or falls smoothly with numbers that are called categories."""
    if not np.isfinite(values_R).all() or len(np.unique(values_R)) < MANY_LEVELS:
        return False
    related = abs(correlation(values_R, label_R))
    least, errors = FOLLOWS
    if related < least or related * np.sqrt(len(values_R)) < errors:
        return False
    edges = np.unique(np.quantile(values_R, np.linspace(0, 1, PARTS + 1)[1:-1]))
    part_R = np.searchsorted(edges, values_R, side="right")
    count_L = np.bincount(part_R)
    mean_L = np.bincount(part_R, weights=label_R) / np.maximum(count_L, 1)
    return len(count_L) > PARTS // 2 and 0 < _ratio(mean_L, count_L) < SMOOTH


def _ratio(mean_L: Floats, count_L: npt.NDArray[np.intp]) -> float:
    """Return half of von Neumann's ratio of neighboring levels that are not rare."""
    mean_L = mean_L[count_L >= ROWS_PER_LEVEL]
    if len(mean_L) < LEVELS[0]:
        return 0.0
    return float((np.diff(mean_L) ** 2).mean() / (2 * max(mean_L.var(), 1e-300)))


def _replicates(index_R: npt.NDArray[np.intp], label_R: Floats) -> bool:
    """Return whether neighboring levels differ in the same way in two halves of the rows."""
    levels = int(index_R.max()) + 1
    counts, sums = [], []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        counts.append(np.bincount(index_R[half], minlength=levels))
        sums.append(np.bincount(index_R[half], weights=label_R[half], minlength=levels))
    known_L = np.minimum(*counts) > ROWS_PER_LEVEL // 2
    if known_L.sum() < LEVELS[0]:
        return False
    one, other = (
        np.diff(total_L[known_L] / count_L[known_L])
        for total_L, count_L in zip(sums, counts, strict=True)
    )
    return bool(np.ptp(one) and np.ptp(other)) and correlation(one, other) > REPLICATED


def _alike(rows_RC: Floats) -> set[int]:
    """Return the integer columns whose range is that of many other columns, or within it."""
    with np.errstate(invalid="ignore"):
        whole = np.flatnonzero((rows_RC == np.round(rows_RC)).all(axis=0))
    ranges = {int(c): (float(rows_RC[:, c].min()), float(rows_RC[:, c].max())) for c in whole}
    often = [one for one, count in Counter(ranges.values()).items() if count >= ALIKE]
    return {
        c for c, (low, high) in ranges.items() if any(low == a and high <= b > a for a, b in often)
    }


def _is_label(values_R: Floats, label_R: Floats) -> bool:
    """Return whether a column contains the label, possibly with other codes or units."""
    if not np.isfinite(values_R).all():
        return False
    levels, labels = np.unique(values_R), np.unique(label_R)
    if len(levels) != len(labels):
        return False
    if len(labels) > LABELS:
        return 1 - correlation(values_R, label_R) ** 2 < ROUNDING
    return len(np.unique(np.stack([values_R, label_R]), axis=1).T) == len(labels)
