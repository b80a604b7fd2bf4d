"""PRE307: the training dataset has few rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, DataSet, Rows, Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class TooFewRows(Check):
    """The training dataset has few rows.

    What it detects:
        Classes with few rows, and tables with few rows per column, counted in the whole dataset.

    Why it matters:
        A model can memorize such a small dataset. Its scores then depend on the split and the seed.

    Fires:
        A note when a class has fewer than `per_class` rows, or a table has fewer than `per_column`
        rows for each column that varies.

    Stays quiet:
        Streams, whose number of rows is unknown. Columns of integers, because they may be words.

    What to do:
        - Get more rows, or augment them.
        - Start from a pretrained model.
        - Use cross-validation: a single small split is not reliable.

    Example:
        x, y = x[:60], y[:60]   # ten classes

    References:
        Beleites et al. 2013, Sample size planning for classification models,
        https://arxiv.org/abs/1211.1323
    """

    code = "PRE307"
    title = "there are few rows to learn from"
    uses = ("datasets",)
    passed = "there are enough rows"
    costs = 3
    explains = ("too_little_data",)
    per_class: float = threshold(30.0, unit="rows of a class", source="as in DAT512")
    per_column: float = threshold(10.0, unit="rows per column", source="a common rule of thumb")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Count rows, classes, and columns."""
        train = tables.training_set(subject)
        if train.size is None:
            raise NotApplicable("the number of rows of a stream is unknown")
        rows = tables.read(train, subject)
        subject.figures["rows"] = train.size
        try:
            labels = tables.classes(rows.targets, subject)
        except NotApplicable:
            pass
        else:
            yield from self._of_classes(train, labels)
        yield from self._of_columns(train, rows)

    def _of_classes(self, train: DataSet, labels: Array) -> Iterable[Found]:
        known, counts = np.unique(labels, return_counts=True)
        whole = counts * ((train.size or 0) / len(labels))
        few = known[whole < self.per_class].tolist()
        if few:
            least = int(np.argmin(whole))
            yield Found(
                step=0,
                severity="info",
                message=f"{len(few)} of {len(known)} classes have fewer than {self.per_class:.0f} "
                f"training rows: class {known[least]} has about {whole[least]:.0f} of "
                f"{train.size}",
                layers=("classes",),
                location=train.location,
                evidence={"classes": [float(one) for one in few[:100]], "rows": train.size},
            )

    def _of_columns(self, train: DataSet, rows: Rows) -> Iterable[Found]:
        table = tables.columns(rows)
        if table is None or all(array.dtype.kind in "iu" for array in rows.inputs):
            return
        varying, size = int((np.ptp(table, axis=0) > 0).sum()), train.size or 0
        if size < self.per_column * varying:
            yield Found(
                step=0,
                severity="info",
                message=f"{size} training rows for {varying} columns that vary are fewer than "
                f"{self.per_column:.0f} per column",
                layers=("columns",),
                location=train.location,
                evidence={"columns": varying, "rows": size},
            )
