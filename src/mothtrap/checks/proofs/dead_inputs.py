"""PRE106: columns of the input have no influence on the output."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Forward
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class DeadInputs(Check):
    """Columns or channels of the input have no influence on the output.

    What it detects:
        Features of a table, or channels of images, that vary in the batch but do not change the
        output of the model at all.

    Why it matters:
        The model never sees a part of the data: an index, a slice, or a mask drops it, or its
        weights in a layer are zero.

    Fires:
        Warning when the gradient of the outputs with respect to a column is exactly 0, and the
        outputs stay exactly the same when the column gets the values of other rows. The message
        names up to `max_named` columns.

    Stays quiet:
        Columns that are constant in the batch; integer inputs; sequences.

    What to do:
        - Check slices and masks of the input, such as `x[:, :-1]`.
        - If the columns are dropped on purpose, leave them out of the data.

    Example:
        x = x[:, :8]   # the table has 12 columns

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE106"
    title = "a part of the input is not used"
    uses = ("step",)
    passed = "every input column has an effect"
    costs = 2
    max_named: int = threshold(12, unit="columns", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report columns without influence."""
        forward = subject.forward
        tables = {
            path: array
            for path, array in forward.inputs.items()
            if array.dtype.kind == "f" and array.ndim in (2, 4) and len(array) == forward.rows
        }
        if not tables or forward.rows < 2:
            raise NotApplicable("needs a table or images as input, of floating-point numbers")
        influence = forward.influence()
        used_at_all = False
        for path, array in tables.items():
            axis = forward.channels if array.ndim == 4 else 1
            reached = influence.get(path)
            used = None if reached is None else _by_column(reached, axis).max(0)
            varies = np.ptp(_by_column(array, axis), axis=0) > 0
            suspects = np.flatnonzero(varies & (used == 0 if used is not None else True))
            dead = _confirmed(forward, path, array, suspects.tolist(), axis)
            used_at_all = used_at_all or len(dead) < int(varies.sum())
            if dead and len(dead) < int(varies.sum()):
                yield self._found(forward, path, dead, array)
        if not used_at_all:
            raise NotEnoughData("no column that varies has an influence; see PRE105")

    def _found(self, forward: Forward, path: str, dead: list[int], array: Array) -> Found:
        named = ", ".join(map(str, dead[: self.max_named]))
        more = f" and {len(dead) - self.max_named} more" if len(dead) > self.max_named else ""
        count = array.shape[forward.channels if array.ndim == 4 else 1]
        return Found(
            step=0,
            severity="warning",
            message=f"{len(dead)} of {count} {'channels' if array.ndim == 4 else 'columns'} of the "
            f"input {path} of {forward.model} do not change its output: {named}{more}",
            location=forward.location,
            evidence={"columns": [float(one) for one in dead], "input": path},
        )


def _by_column(array: Array, axis: int) -> Array:
    """Return an array of shape (rows, columns): the columns of an axis, all others as rows."""
    return np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])


def _confirmed(
    forward: Forward, path: str, array: Array, suspects: list[int], axis: int
) -> list[int]:
    """Return the columns whose values do not change the outputs, in either mode."""
    if not suspects:
        return []
    changed = array.copy()
    columns = np.moveaxis(changed, axis, 0)  # a view
    columns[suspects] = np.roll(columns[suspects], 1, axis=1)
    for training in (False, True):
        usual = forward.outputs(training=training)
        other = forward.outputs({path: changed}, training=training)
        if any(not np.array_equal(a, b) for a, b in zip(usual, other, strict=True)):
            return []
    return suspects
