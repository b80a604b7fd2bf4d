"""DAT545: some columns of a table have no or other values in evaluation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Window

FILLS = (0.0, -1.0, *(sign * value for value in (99, 999, 9999, 99999) for sign in (1, -1)))
"""Numbers that stand for a missing column."""
ROUNDING = 1e-9
"""Spread of a constant column, relative to its values, that is due to rounding."""
SHOWN = 5
SAME, OWN, MOST_OFFSET = 0.15, 0.3, 1.5
"""Deviation of the columns' shifts from each other, relative to the shift; minimum deviation of
their means, in standard deviations, because the columns of a series have equal means; and shift
from which DAT509 reports it. Chosen by hand."""
SHIFTED = 0.5
"""Minimum shift of a column, in standard deviations of the evaluation: a single outlier among 64
rows shifts the mean by 0.12."""
MOST_MOVED = 0.5
"""If more than this share of the columns has other values, the whole table is on another scale,
which DAT509 reports. Chosen by hand."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Mean, standard deviation, and share of the rows with the median value, by column."""

    rows: int
    mean_F: Floats
    std_F: Floats
    ties_F: Floats


@rule(
    "DAT545",
    title="columns differ in evaluation",
    severity="warning",
    needs=[Need(facts=(InputDistribution,))],
    explains=(
        "class_lost_in_evaluation",
        "confusion",
        "overfit",
        "overtraining",
        "train_eval_shift",
    ),
)
def eval_columns_differ(
    window: Window,
    *,
    rows: int = threshold(64, unit="rows in training and in evaluation", source="chosen by hand"),
    columns: int = threshold(6, unit="columns", source="chosen by hand: fewer may be coordinates"),
    share: float = threshold(1 / 3, unit="of the evaluations", source="as in DAT509"),
    shift: float = threshold(5.0, unit="standard deviations in training", source="as in DAT509"),
    offset: float = threshold(
        0.5, unit="standard deviations in training, of all columns", source="chosen by hand"
    ),
    ties: float = threshold(
        0.5,
        unit="of the rows have the median value",
        source="chosen by hand: the scale of a sparse column depends on a few rows",
    ),
) -> list[Found]:
    """Some columns of a table have no or other values in evaluation.

    What it detects:
        Input columns that vary in training, but are a constant such as 0 in evaluation. Also
        columns that have another scale there, while most columns do not, and a number that is
        added to all columns.

    Why it matters:
        The model relies on columns that it no longer gets. The training loss looks good, and the
        evaluation says nothing about what the model learned.

    Fires:
        Warning when, in `share` of the evaluations, a column is constant at 0, -1, or a placeholder
        such as -999. Also when the mean of a column is more than `shift` standard deviations of
        training away, not only because of a few rows, but at most half of the columns are affected,
        and the others have hardly moved.
        Also when the means of all columns are shifted by the same number, more than `offset`
        standard deviations, although they differ from each other. Needs a table of at least
        `columns` columns, `rows` rows in training, and as many in evaluation.

    Stays quiet:
        Columns in which more than `ties` of the training rows have the same value, such as one-hot
        columns. Images. Windows of a series. Columns that are constant at another value, such as a
        coordinate or a time. Inputs with more than 256 columns.

    What to do:
        - Build the columns of both tables with the same function, in the same order.
        - Fill missing values of both tables in the same way, with the mean or median of the
          training data.
        - Scale each column of both tables with the mean and standard deviation of the training
          data.
        - Subtract the same number from both tables: the mean of the training data.

    Example:
        x_test = pandas.get_dummies(test).reindex(columns=columns, fill_value=0)
        x_test = pandas.get_dummies(test)[columns]      # raises an error for a missing column

    References:
        Breck et al. 2019, Data validation for machine learning,
        https://mlsys.org/Conferences/2019/doc/2019/167.pdf
    """
    seen: dict[tuple[str, str, int], list[InputDistribution]] = defaultdict(list)
    for one in window.seen(InputDistribution):
        if len(one.column_means) >= columns:
            seen[one.module, one.argument, len(one.column_means)].append(one)
    if not seen:
        raise NotApplicable(f"no model gets a table of at least {columns} columns")
    found, compared = [], False
    for (module, argument, count), every in seen.items():
        train = _together([one for one in every if one.mode is Mode.TRAIN])
        others = [one for one in every if one.mode is Mode.EVAL and not one.windows]
        if not others or train.rows < rows or sum(one.column_rows for one in others) < rows:
            continue
        compared = True
        varies_F = (train.ties_F <= ties) & (train.std_F > 0)
        lost_EF = np.array([_is_lost(one, train, varies_F) for one in others])
        moved_EF = varies_F & np.array([_has_moved(one, train, shift) for one in others])
        moved_EF &= ~lost_EF
        moved_EF &= (moved_EF.mean(axis=1) <= MOST_MOVED)[:, None]
        offset_EF = varies_F & np.array([[_has_offset(one, train, offset)] for one in others])
        kinds = (
            ("a constant", lost_EF, (0, 1)),
            ("on another scale", moved_EF, (2, 0)),
            ("shifted by the same number", offset_EF & ~lost_EF & ~moved_EF, (3, 2)),
        )
        for words, is_off_EF, fixes in kinds:
            off_F = (is_off_EF.mean(axis=0) >= share) & is_off_EF.any(axis=0)
            if not off_F.any():
                continue
            affected = [one for one, off in zip(others, is_off_EF, strict=True) if off.any()]
            places = np.flatnonzero(off_F).tolist()
            listed = ", ".join(str(place) for place in places[:SHOWN])
            more = ", ..." if len(places) > SHOWN else ""
            first, place = affected[0], places[0]
            found.append(
                Found.of(
                    affected,
                    f"{len(places)} of {count} columns of argument {argument} of {module} are "
                    f"{words} in evaluation, but not in training (columns {listed}{more}, from 0): "
                    f"column {place} has mean {first.column_means[place]:.3g} and standard "
                    f"deviation {first.column_stds[place]:.3g} in evaluation, but mean "
                    f"{train.mean_F[place]:.3g} and standard deviation {train.std_F[place]:.3g} "
                    "in training",
                    layers=(module,),
                    evidence={"columns": len(places), "of": count, "first": place},
                    fixes=fixes,
                    mode=Mode.EVAL.value,
                )
            )
    if not compared:
        raise NotEnoughData(f"fewer than {rows} rows of a table in training or evaluation")
    return found


def _together(looks: list[InputDistribution]) -> _Columns:
    """Pool the columns of several calls."""
    rows_L1 = np.array([[one.column_rows] for one in looks], dtype=np.float64).reshape(-1, 1)
    total = int(rows_L1.sum())
    if not total:
        return _Columns(0, np.empty(0), np.empty(0), np.empty(0))
    mean_LF, std_LF, ties_LF = (
        np.array([getattr(one, name) for one in looks])
        for name in ("column_means", "column_stds", "column_ties")
    )
    mean_F = (rows_L1 * mean_LF).sum(axis=0) / total
    square_F = (rows_L1 * (std_LF**2 + (mean_LF - mean_F) ** 2)).sum(axis=0) / total
    return _Columns(total, mean_F, np.sqrt(square_F), (rows_L1 * ties_LF).sum(axis=0) / total)


def _is_lost(one: InputDistribution, train: _Columns, varies_F: Bools) -> Bools:
    """Return which columns of an evaluation have one value that stands for a missing value.

    If all columns are constant, the input is not a table of examples.
    """
    mean_F, std_F = np.array(one.column_means), np.array(one.column_stds)
    constant_F = std_F <= ROUNDING * np.maximum(np.abs(mean_F), train.std_F)
    fill_F = np.isclose(mean_F[:, None], FILLS, rtol=ROUNDING, atol=ROUNDING).any(axis=1)
    lost_F: Bools = varies_F & constant_F & fill_F & (not constant_F.all())
    return lost_F


def _has_moved(one: InputDistribution, train: _Columns, shift: float) -> Bools:
    """Return which columns of an evaluation are on another scale than in training."""
    mean_F, std_F = np.array(one.column_means), np.array(one.column_stds)
    away_F = np.abs(mean_F - train.mean_F)
    others_stay = bool(np.median(away_F) <= np.median(train.std_F))
    moved_F: Bools = (away_F > shift * train.std_F) & (away_F > SHIFTED * std_F) & others_stay
    return moved_F


def _has_offset(one: InputDistribution, train: _Columns, offset: float) -> bool:
    """Return whether the same number was added to all columns, which have different means."""
    mean_F, std_F = np.array(one.column_means), np.array(one.column_stds)
    shift_F = mean_F - train.mean_F
    spread = float(np.sqrt(np.square(train.std_F).mean()))
    whole = float(np.hypot(spread, train.mean_F.std()))
    shift = abs(float(shift_F.mean()))
    return (
        offset * whole < shift <= MOST_OFFSET * whole
        and float(shift_F.std()) <= SAME * shift
        and float(train.mean_F.std()) >= OWN * spread
        and bool(np.median(std_F) <= 2 * np.median(train.std_F))
    )
