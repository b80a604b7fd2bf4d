"""Labels, predictions, SHAP values, importance, and trees, if a collection requests them.

Shape suffixes: R = rows, F = features and the bias.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence, Set
from typing import Any, Final

import numpy as np
import xgboost

from mothtrap.adapters.xgboost.nodes import importances, nodes
from mothtrap.core.adapters import Job
from mothtrap.core.tensors import TensorInfo

LABEL, PREDICTION, SHAP, AVERAGE, IMPORTANCE, TREE = KINDS = (
    *("label", "prediction", "shap", "average_shap"),
    *("importance", "tree"),
)
TRAIN: Final = "train"
TRIED_ROWS: Final = 64
"""Number of rows on which the computation of SHAP values is timed first."""
REPORTED_AGAIN: Final = 2.0
"""Factor by which the cost must grow to be reported again."""


class Values:
    """Captures the data that active collections request at their rounds.

    Args:
        job: receives the tensors.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, str], int] = {}
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._told_s = 0.0

    def take(
        self,
        owner: object,
        booster: xgboost.Booster,
        train: xgboost.DMatrix | None,
        evals: Sequence[tuple[xgboost.DMatrix, str]],
    ) -> None:
        """Capture the values of a complete round.

        Args:
            owner: identifies the training run.
            booster: booster that was trained.
            train: the training data; None = unknown.
            evals: evaluated data, with their names.
        """
        wanted = {kind for kind in KINDS if self._job.wants(kind)}
        if not wanted:
            return
        number = self._numbers.setdefault(owner, len(self._numbers) + 1)
        mark = f"#{number}" if number > 1 else ""
        tables = {name: data for data, name in evals}
        if train is not None and not any(data is train for data in tables.values()):
            tables.setdefault(TRAIN, train)
        for name, data in tables.items():
            if LABEL in wanted and len(label := data.get_label()):
                self._keep(LABEL, name + mark, label)
            if PREDICTION in wanted:
                self._keep(PREDICTION, name + mark, booster.predict(data))
        if wanted & {IMPORTANCE, TREE} and _has_trees(booster):
            self._take_model(wanted, booster, mark)
        if train is not None and wanted & {SHAP, AVERAGE} and _has_trees(booster):
            self._report_cost(booster, train)
            values_RF = booster.predict(train, pred_contribs=True)
            if SHAP in wanted:
                self._keep(SHAP, TRAIN + mark, values_RF)
            if AVERAGE in wanted:
                self._keep(AVERAGE, TRAIN + mark, values_RF.mean(axis=0, dtype=np.float64))

    def _take_model(self, wanted: Set[str], booster: xgboost.Booster, mark: str) -> None:
        """Capture the importance of the features so far, and the trees of this round."""
        if IMPORTANCE in wanted:
            for name, values_F in importances(booster).items():
                self._keep(IMPORTANCE, name + mark, values_F)
        if TREE in wanted:
            for name, column_N in nodes(booster, booster.num_boosted_rounds() - 1).items():
                self._keep(TREE, name + mark, column_N)

    def _report_cost(self, booster: xgboost.Booster, train: xgboost.DMatrix) -> None:
        """Report the expected cost of SHAP values, from the cost of some rows."""
        rows, columns = train.num_row(), train.num_col()
        if type(train) is xgboost.DMatrix and rows > TRIED_ROWS:
            some = train.slice(np.arange(TRIED_ROWS), allow_groups=True)
            began = time.perf_counter()
            booster.predict(some, pred_contribs=True)
            expected_s = (time.perf_counter() - began) * rows / TRIED_ROWS
            if expected_s < self._told_s * REPORTED_AGAIN:
                return
            self._told_s, takes = expected_s, f"about {expected_s:.2g} s"
        elif self._told_s:
            return
        else:
            self._told_s, takes = 1e-9, "an unpredictable time"
        trees = booster.num_boosted_rounds()
        self._job.say(
            f"mothtrap: SHAP values of {rows:,} rows x {columns:,} features take {takes} after "
            f"round {trees:,}, in each round that a collection requests"
        )

    def _keep(self, kind: str, name: str, array: Any) -> None:
        if (kind, name) not in self._ids:
            self._ids[kind, name] = self._job.define(
                TensorInfo(kind=kind, name=name, shape=tuple(array.shape), dtype=array.dtype.name)
            )
        self._job.take(kind, [self._ids[kind, name]], [np.ascontiguousarray(array)])


def _has_trees(booster: xgboost.Booster) -> bool:
    return '"gblinear"' not in booster.save_config()
