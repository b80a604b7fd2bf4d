"""PRE308: a column of the inputs reveals the target."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, Rows, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class TargetInFeatures(Check):
    """A column of the inputs reveals the target.

    What it detects:
        Columns of a table that are the target, a scaled or noisy copy of it, another monotone
        function of a number, or one column for each class.

    Why it matters:
        The model looks up the answer. Scores are perfect, in evaluation, too, and the model fails
        as soon as the target is not known in advance.

    Fires:
        Warning when a column explains `explained` of the variance of the target, or of its ranks,
        in each of two halves of the rows.

    Stays quiet:
        Tables of fewer than `least_columns` columns; tables in which more than `column_share` of
        the columns reveal the target, because the data are then easy; fewer than `least_rows` rows.

    What to do:
        - Leave the column out, and check how it is computed: is it known before the target?

    Example:
        x = table.to_numpy()   # holds the column "price"

    References:
        Kaufman et al. 2012, Leakage in data mining, ACM TKDD 6(4),
        https://doi.org/10.1145/2382577.2382579
    """

    code = "PRE308"
    title = "the target is among the inputs"
    uses = ("datasets",)
    passed = "no column reveals the target"
    costs = 3
    explains = ("too_good_to_be_true", "initial_loss")
    explained: float = threshold(0.99, unit="of the variance", source="chosen by hand")
    column_share: float = threshold(0.5, unit="of the columns", source="as in LOS409")
    least_columns: int = threshold(3, unit="columns", source="as in LOS409")
    least_rows: int = threshold(40, unit="rows", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare each column with the target in two halves of the rows."""
        train = tables.training_set(subject)
        rows = tables.read(train, subject)
        table = tables.columns(rows)
        if table is None or table.shape[1] < self.least_columns:
            raise NotApplicable(f"needs a table of {self.least_columns} columns or more")
        if len(table) < self.least_rows:
            raise NotEnoughData(f"needs {self.least_rows} rows, read {len(table)}")
        explained = _explained(rows, subject, table)
        subject.figures["rows"] = len(table)
        telling = np.flatnonzero(explained >= self.explained).tolist()
        if not telling or len(telling) > self.column_share * table.shape[1]:
            return
        more = len(telling) > 1
        yield Found(
            step=0,
            severity="warning",
            message=f"{'columns' if more else 'column'} {tables.named(telling)} of "
            f"{table.shape[1]} {'reveal' if more else 'reveals'} the target in {len(table)} rows: "
            f"{float(explained[telling].min()):.1%} of its variance",
            location=train.location,
            evidence={"columns": [float(one) for one in telling]},
        )


def _explained(rows: Rows, subject: Subject, table: Array) -> Array:
    """Return the share of the target's variance that each column explains, the lesser half's."""
    halves = [np.arange(start, len(table), 2) for start in (0, 1)]
    try:
        labels = tables.classes(rows.targets, subject)
    except NotApplicable:
        target = tables.numbers(rows.targets, subject)
        alike = [_by_numbers(table[half], target[half]) for half in halves]
    else:
        alike = [_by_classes(table[half], labels[half]) for half in halves]
    return np.minimum(*alike)


def _by_numbers(table: Array, target: Array) -> Array:
    ranks = np.apply_along_axis(_ranks, 0, table)
    return np.maximum(_squared(table, target), _squared(ranks, _ranks(target)))


def _by_classes(table: Array, labels: Array) -> Array:
    """Return the share of each column's variance that lies between classes.

    A column that marks a single class counts only if all classes except one have such a column.
    """
    known = np.unique(labels)
    if known.size < 2:
        raise NotEnoughData("all rows have the same label")
    own = np.stack([_squared(table, (labels == one).astype(float)) for one in known])
    members = [table[labels == one] for one in known]
    within = sum(((part - part.mean(0)) ** 2).sum(0) for part in members)
    whole = ((table - table.mean(0)) ** 2).sum(0)
    between = np.where(whole > 0, 1 - within / np.where(whole > 0, whole, 1), 0.0)
    apart = [len(np.unique(part)) for part in np.array([part.mean(0) for part in members]).T]
    between = np.where(np.array(apart) == known.size, between, 0.0)
    one_each = int((own.max(1) >= 0.99).sum()) >= known.size - 1
    return np.maximum(between, own.max(0)) if one_each else between


def _squared(table: Array, target: Array) -> Array:
    """Return the squared correlation of each column with the target; 0 for constant columns."""
    centered, other = table - table.mean(0), target - target.mean()
    scale = (centered**2).sum(0) * (other**2).sum()
    return np.where(scale > 0, (centered.T @ other) ** 2 / np.where(scale > 0, scale, 1), 0.0)


def _ranks(values: Array) -> Array:
    """Return ranks; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
