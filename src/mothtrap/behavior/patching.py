"""Patches of a model: other answers for some rows, accepted only if they help and harm nowhere.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mothtrap.behavior.answers import merged, protected
from mothtrap.behavior.confirm import LEAST_ROWS, mean_above
from mothtrap.behavior.segments import Floats, Mask, Segment, search
from mothtrap.behavior.subject import Judged, Predict, Subject
from mothtrap.behavior.table import Table

Change = Callable[[Any, Any], Any]

P_LIMIT = 0.01
"""Largest p-value of a gain or a loss; chosen by hand."""
MOST_SEGMENTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A change of predictions, and its effect on the loss of held-out rows.

    Attributes:
        accepted: Whether the loss of the changed rows falls and rises in no segment.
        reason: why it was accepted or refused.
        changed: number of rows whose answer changes, among the rows on which the patch is tested.
        before: their mean loss without the patch.
        after: their mean loss with it.
        predict: The patched model, or the original one if the patch was refused.
    """

    accepted: bool
    reason: str
    changed: int
    before: float
    after: float
    predict: Predict


def patched(subject: Subject, change: Change, where: Segment | None = None) -> Patch:
    """Test a change of predictions on the confirming rows.

    Args:
        subject: The probed model and its rows.
        change: Function of rows and predictions that returns new predictions.
        where: Rows that may change; None for all.
    """
    table = subject.table
    answer = subject.answer(table)
    allowed_R = np.ones(len(table), bool) if where is None else where.mask(table)
    after = _with(subject, merged(answer, change(table.data, protected(answer)), allowed_R))
    before = subject.judged
    gain_R = before.loss_R - after.loss_R
    changed_R = (before.scores != after.scores).any(axis=1)
    judged_R = changed_R & subject.confirm_R
    count = int(judged_R.sum())
    means = [float(each.loss_R[judged_R].mean()) if count else 0.0 for each in (before, after)]
    reason = _refusal(subject, gain_R, judged_R, means)
    values = f"from {means[0]:.3g} to {means[1]:.3g}"
    return Patch(
        accepted=not reason,
        reason=reason or f"it lowers the mean loss of {count:,} rows {values}",
        changed=count,
        before=means[0],
        after=means[1],
        predict=subject.model if reason else _Patched(subject.model, change, where),
    )


class _Patched:
    """A model with other answers for some rows."""

    def __init__(self, predict: Predict, change: Change, where: Segment | None) -> None:
        self._predict, self._change, self._where = predict, change, where

    def __call__(self, rows: Any) -> Any:
        """Return the answers to rows."""
        answer = self._predict(rows)
        allowed_R = np.ones(len(rows), bool)
        if self._where is not None:
            allowed_R = self._where.mask(Table(rows))
        return merged(answer, self._change(rows, protected(answer)), allowed_R)


def _with(subject: Subject, answer: Any) -> Judged:
    judged = subject.judged
    scores = subject.reading.scores(answer)
    return Judged(
        judged.table, judged.target_R, scores, subject.reading, judged.rows_R, judged.loss
    )


def _refusal(subject: Subject, gain_R: Floats, judged_R: Mask, means: list[float]) -> str:
    """Return the reason why a patch is refused; empty for an accepted patch."""
    count = int(judged_R.sum())
    if count < LEAST_ROWS:
        return f"it changes only {count} of the test rows; {LEAST_ROWS} are needed"
    p, _ = mean_above(gain_R[judged_R])
    if means[1] >= means[0] or p > P_LIMIT:
        return (
            f"it does not lower the loss of the {count:,} rows that it changes: {means[0]:.3g}, "
            f"then {means[1]:.3g}"
        )
    return _harm(subject, -gain_R)


def _harm(subject: Subject, rise_R: Floats) -> str:
    """Return the segment in which the loss rises; empty if there is none."""

    def is_enough(mask_R: Mask) -> bool:
        return float(proposed_R[mask_R].mean()) > 0

    table = subject.table.take(subject.propose_R)
    proposed_R = rise_R[subject.propose_R]
    if not table.searched:
        return ""
    spend = subject.budget.spend
    for candidate in search(
        table, proposed_R, most=MOST_SEGMENTS, is_enough=is_enough, spend=spend
    ):
        mask_R = candidate.segment.mask(subject.table) & subject.confirm_R
        if mask_R.sum() < 2:
            continue
        p, _ = mean_above(rise_R[mask_R])
        if p < P_LIMIT:
            mean = float(rise_R[mask_R].mean())
            return f"it raises the mean loss by {mean:.3g} where {candidate.segment}"
    return ""
