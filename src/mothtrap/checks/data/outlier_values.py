"""PRE309: rows have values that are far from all others."""

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
class OutlierValues(Check):
    """Rows have values that are far from all others.

    What it detects:
        Rows of a table with a value that is not finite, or that is far outside of the range of 99 %
        of the rows in that column. For images, the root mean square of the image is compared.

    Why it matters:
        One such row can dominate the loss and the gradient of its batch, and the mean and standard
        deviation of a normalization. Usual causes are a wrong unit, a placeholder, or a bad file.

    Fires:
        Warning when at most `share` of the rows are `far` times farther from the median of a column
        than 99 % of the rows, or when some rows, but not `often` of them, are not finite.

    Stays quiet:
        Columns whose middle half is constant; fewer than `least_rows` rows; integers of tokens.

    What to do:
        - Look at the named rows. Drop or correct them, or clip the column.

    Example:
        weight_kg[17] = 71_000.0   # grams

    References:
        https://scikit-learn.org/stable/modules/outlier_detection.html
    """

    code = "PRE309"
    title = "rows have values far from all others"
    uses = ("datasets",)
    passed = "no row has a value far from all others"
    costs = 3
    explains = ("loss_spike", "gradient_spike", "nonfinite_loss")
    far: float = threshold(
        100.0,
        unit="times the distance of 99 % of the rows",
        source="computed: 2 % of columns of 20,000 numbers with a Pareto tail of 2 have one",
    )
    share: float = threshold(0.01, unit="of the rows", source="the rows beyond 99 %")
    often: float = threshold(
        0.01,
        unit="of the rows",
        source=("chosen by hand: a more frequent value is a code for missing data"),
    )
    least_rows: int = threshold(100, unit="rows", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Check each column of the training rows."""
        train = tables.training_set(subject)
        rows = tables.read(train, subject)
        if len(rows.indices) < self.least_rows:
            raise NotEnoughData(f"needs {self.least_rows} rows, read {len(rows.indices)}")
        table, what = _measured(rows)
        subject.figures["rows"] = len(table)
        broken = np.flatnonzero(~np.isfinite(table).all(1))
        table[:, ~np.isfinite(table).any(0)] = 0  # a column without numbers has no median
        distance = np.abs(table - np.nanmedian(np.where(np.isfinite(table), table, np.nan), axis=0))
        beyond = self._beyond(table, distance)
        for places, text in (
            (broken, "values that are not finite"),
            (np.flatnonzero(beyond.any(1)), f"a {what} far from all others"),
        ):
            if not 0 < len(places) <= max(1, self.often * len(table)):
                continue
            indices = [rows.indices[place] for place in places]
            yield Found(
                step=0,
                severity="warning",
                message=f"{len(places)} of {len(table)} training rows have {text}"
                f"{self._example(table, beyond, places, rows)}; rows {tables.named(indices)}",
                layers=(text,),
                location=train.location,
                evidence={"indices": [float(one) for one in sorted(indices)[:100]]},
            )

    def _beyond(self, table: Array, distance: Array) -> Array:
        """Return which values are far from the others of their column."""
        finite = np.where(np.isfinite(table), table, np.nan)
        with np.errstate(invalid="ignore"):
            low, high = np.nanquantile(finite, (0.25, 0.75), axis=0)
            usual = np.nanquantile(np.where(np.isfinite(distance), distance, np.nan), 0.99, axis=0)
            usual = np.where(high > low, usual, np.inf)
            far = (distance > self.far * usual) & np.isfinite(table)
        few = far.mean(0) <= self.share
        return np.asarray(far & few)

    def _example(self, table: Array, beyond: Array, places: Array, rows: Rows) -> str:
        """Describe the value of the first row that is far away."""
        row = int(places[0])
        if not beyond[row].any():
            return ""
        column = int(np.argmax(beyond[row]))
        middle = float(np.nanmedian(table[:, column]))
        where = f" in column {column}" if table.shape[1] > 1 else ""
        value = f"{table[row, column]:.4g}{where} of row {rows.indices[row]}"
        return f", such as {value}; the median is {middle:.4g}"


def _measured(rows: Rows) -> tuple[Array, str]:
    """Return the table, or the root mean square of each image, and a name for the values."""
    table = tables.columns(rows)
    if table is not None:
        if table.shape[1] > 1 and all(array.dtype.kind in "iu" for array in rows.inputs):
            raise NotApplicable("the inputs are integers")
        return table, "value"
    arrays = [array for array in rows.inputs if array.dtype.kind == "f" and array.ndim > 1]
    if not arrays:
        raise NotApplicable("the inputs are not floating-point numbers")
    flat = arrays[0].reshape(len(arrays[0]), -1).astype(float)
    return np.sqrt((flat**2).mean(1, keepdims=True)), "size"
