"""Shared parts of the rules on the metrics of epochs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.metrics import sense_by_name
from mothtrap.core.window import Floats, Ints, Window

SHARES_OF_RIGHT: Final = re.compile(
    r"((binary|categorical|sparse_categorical)_)?(accuracy|acc)", re.IGNORECASE
)
"""Names of metrics that count every row or element by itself. A share of whole sequences that are
right may stay at 0 for long, as may a recall."""
OVERLAPS: Final = re.compile(r"(^|_)(dice|iou|io_u|jaccard)($|[_\d])")
"""Names of metrics of areas, which small ones start with near 0."""
QUALITIES: Final = re.compile(rf"(^|_)(accuracy|acc|auc|auroc)($|[_\d])|{OVERLAPS.pattern}")
"""Names of metrics that a falling loss improves; a recall and a precision make way for one another,
and what is not of 0 to 1 has no level of guessing."""
UNSURE: Final = re.compile(r"(^|_)(?<!f1_)(?<!f_)score$|(^|_)(entropy|gini|map)$")
"""Names of metrics of which the greater may be better, or the smaller: they do not say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Epochs:
    """Epochs of one training, one after the other, oldest first."""

    seen: tuple[EpochMetrics, ...]

    @property
    def fit(self) -> str:
        """Label of the line that trains."""
        return self.seen[0].fit

    @property
    def steps(self) -> Ints:
        """The step behind each epoch."""
        return np.array([one.step for one in self.seen], dtype=np.int64)

    def values(self, metric: str, *, held_out: bool) -> Floats:
        """Return a metric of each epoch, NaN where there was none."""
        tables = [one.held_out if held_out else one.values for one in self.seen]
        return np.array([table.get(metric, np.nan) for table in tables], dtype=np.float64)

    def is_rising(self, metric: str) -> bool | None:
        """Return whether a metric grows as a model becomes better; None where unknown."""
        last = self.seen[-1]
        if metric in last.higher_is_better:
            return True
        return False if metric in last.lower_is_better else sense_by_name(metric)


def trainings(window: Window) -> list[Epochs]:
    """Return the epochs of each training; one that begins anew at a line is another one."""
    running: dict[str, list[EpochMetrics]] = {}
    found: list[list[EpochMetrics]] = []
    for one in window.seen(EpochMetrics):
        before = running.get(one.fit)
        if before is None or one.epoch <= before[-1].epoch:
            before = running[one.fit] = []
            found.append(before)
        before.append(one)
    return [Epochs(seen=tuple(seen)) for seen in found]


def of_fit(every: Iterable[Epochs], fit: str) -> list[Epochs]:
    """Return the trainings of one line."""
    return [one for one in every if one.fit == fit]
