"""Metrics of epochs, shared by the rules that check them."""

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
"""Names of metrics that count each row or element separately. A recall, or the share of sequences
that are entirely right, may stay at 0 for long."""
OVERLAPS: Final = re.compile(r"(^|_)(dice|iou|io_u|jaccard)($|[_\d])")
"""Names of metrics of overlapping areas, which start near 0 if the areas are small."""
QUALITIES: Final = re.compile(rf"(^|_)(accuracy|acc|auc|auroc)($|[_\d])|{OVERLAPS.pattern}")
"""Names of metrics that improve when the loss falls. Recall and precision trade off against each
other, and a metric beyond 0 to 1 has no level of guessing."""
UNSURE: Final = re.compile(r"(^|_)(?<!f1_)(?<!f_)score$|(^|_)(entropy|gini|map)$")
"""Names of metrics for which the better direction is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Epochs:
    """Epochs of one training run, oldest first."""

    seen: tuple[EpochMetrics, ...]

    @property
    def fit(self) -> str:
        """Label of the line that trains."""
        return self.seen[0].fit

    @property
    def steps(self) -> Ints:
        """The step after each epoch."""
        return np.array([one.step for one in self.seen], dtype=np.int64)

    def values(self, metric: str, *, held_out: bool) -> Floats:
        """Return the values of a metric, NaN for epochs without it."""
        tables = [one.held_out if held_out else one.values for one in self.seen]
        return np.array([table.get(metric, np.nan) for table in tables], dtype=np.float64)

    def is_rising(self, metric: str) -> bool | None:
        """Return whether a greater value of a metric is better; None if unknown."""
        last = self.seen[-1]
        if metric in last.higher_is_better:
            return True
        return False if metric in last.lower_is_better else sense_by_name(metric)


def trainings(window: Window) -> list[Epochs]:
    """Return the epochs of each training run; if a line's epochs start over, that is a new run."""
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
    """Return the training runs of one line."""
    return [one for one in every if one.fit == fit]
