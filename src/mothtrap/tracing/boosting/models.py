"""Interface to a model in training and its tables, for all boosting libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mothtrap.core import metrics

Floats = npt.NDArray[np.float64]
MAX_CLASSES = 1000
Latest = Mapping[str, Mapping[str, float]]
"""The latest value of each metric, by name of the data and of the metric."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table that a model is trained or evaluated on.

    Attributes:
        key: the library's object, whose rows were sampled when it was created.
        rows: rows of the table.
        columns: columns of the table.
        names: names of the columns.
        labels: returns the labels of all rows; None = unknown.
        bounds: returns the lower and the upper bounds of all labels, if the labels are ranges.
        weighted: rows have weights.
        weights: returns the weights of all rows; None = unknown.
        missing_share: share of cells without a value; None = unknown.
        categorical: numbers of the categorical columns.
        groups: returns the sizes of the groups in which rows are ranked, in order; None = none.
    """

    key: object
    rows: int
    columns: int
    names: Sequence[str] = ()
    labels: Callable[[], Any] = lambda: None
    bounds: Callable[[], tuple[Any, Any]] = lambda: ((), ())
    weighted: bool = False
    weights: Callable[[], Any] = lambda: None
    missing_share: float | None = None
    categorical: frozenset[int] = frozenset()
    groups: Callable[[], Any] = lambda: None

    def label(self) -> Floats | None:
        """Return the labels of all rows as numbers; None if they are not numbers."""
        found = self.labels()
        if found is None:
            return None
        label_R = np.asarray(found)
        if label_R.ndim != 1 or label_R.dtype.kind not in "fiub":
            return None
        return label_R.astype(np.float64)

    def class_weights(self) -> tuple[float, ...]:
        """Return the mean weight of the rows of each class (0, 1, ...); empty if unknown."""
        given, label_R = self.weights(), self.label()
        weight_R = np.asarray(given if given is not None else (), np.float64)
        if label_R is None or weight_R.shape != label_R.shape or not len(label_R):
            return ()
        if not np.isfinite(label_R).all() or label_R.min() < 0 or label_R.max() >= MAX_CLASSES:
            return ()
        number_R = label_R.astype(np.int64)
        count_K = np.maximum(np.bincount(number_R), 1)
        return tuple((np.bincount(number_R, weights=weight_R) / count_K).tolist())

    def reversed_bounds(self) -> int:
        """Return the number of rows whose lower bound is above the upper bound."""
        lower_R, upper_R = map(np.asarray, self.bounds())
        return int((lower_R > upper_R).sum()) if lower_R.shape == upper_R.shape else 0

    def group_sizes(self) -> npt.NDArray[np.int64] | None:
        """Return the sizes of the groups; None if there are none, or if they miss rows."""
        found = self.groups()
        if found is None or not len(found):
            return None
        size_G = np.asarray(found, np.int64)
        return size_G if int(size_G.sum()) == self.rows else None

    def column_names(self) -> Sequence[str]:
        """Return the names of all columns, in order."""
        return self.names or [f"f{column}" for column in range(self.columns)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """Settings of a model's training, independent of the library; fields as in `BoostingBegan`.

    `rising` are metrics that increase according to the library; None = decide by name.
    `scaled`: the objective weights its classes. `stops_on` are evaluations, any of which may stop
    the training.
    """

    objective: str
    task: str = ""
    classes: int = 0
    learning_rate: float | None = None
    max_depth: int = 0
    max_leaves: int = 0
    parameters: dict[str, str] = field(default_factory=dict)
    scaled: bool = False
    stops_after: int | None = None
    stops_on: tuple[str, ...] = ()
    stops_rising: bool | None = None
    rounds_asked: int = 0
    keeps_best: bool = False
    has_trees: bool = True
    rising: frozenset[str] | None = None
    ignored: dict[str, str] | None = None

    def is_rising(self, metric: str) -> bool:
        """Return whether a greater value of a metric is better."""
        return metrics.is_rising(metric) if self.rising is None else metric in self.rising


class Model(Protocol):
    """Model in training, at the end of a round; used only within `Job.contain`."""

    library: str

    def settings(self, latest: Latest, /) -> Settings:
        """Return the training settings."""

    def tables(self) -> tuple[Table | None, Sequence[tuple[Table, str]]]:
        """Return the training table, and each evaluation table with its name."""

    def train_site(self, latest: Latest, /) -> str | None:
        """Return the name of the evaluated training data; None: compare tables."""

    def leaves(self, made: int) -> tuple[Sequence[Floats], int] | None:
        """Return the leaf values of each tree of a round, and the depth of the deepest.

        Args:
            made: number of the round in the model, from 0.
        """

    def gains(self) -> Mapping[str, float]:
        """Return the gain of the splits of each feature so far; empty without splits."""

    def importances(self) -> Mapping[str, Mapping[str, float]]:
        """Return all kinds of feature importance that the library computes."""

    def predictions(self, site: str) -> npt.NDArray[Any] | None:
        """Return the predictions for evaluated data; None if they would have to be computed."""

    def best_round(self) -> int | None:
        """Return the best round, from 0, that the library has chosen, or None."""
