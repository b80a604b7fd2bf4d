"""A booster of XGBoost as rounds of boosting: settings, tables, trees, predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xgboost
from xgboost.callback import CallbackContainer, EarlyStopping

from mothtrap.tracing.boosting.models import Floats, Latest, Settings, Table
from mothtrap.tracing.boosting.samples import MAX_CELLS
from mothtrap.tracing.boosting.unknown import misspelled

LINEAR: Final = "gblinear"
GROUPS: Final = "group_ptr"
LOWER: Final = "label_lower_bound"
UPPER: Final = "label_upper_bound"
TASKS: Final = {
    "binary": "two_classes",
    "multi": "classes",
    "rank": "ranking",
    "count": "counts",
    "survival": "",
    "custom": "",
}
COUNTS: Final = ("reg:gamma", "reg:tweedie")
LEAF: Final = re.compile(r"^(\t*)\d+:leaf=(.+)$", re.MULTILINE)
NOT_IN_CONFIG: Final = ("eval_metric", "verbosity", "missing", "nthread", "device", "gpu_id")
"""Names of parameters that the configuration of a booster may omit."""
ROUNDS: Final = "n_estimators"
STOPS: Final = "early_stopping_rounds"
Evals = Sequence[tuple[xgboost.DMatrix, str]]


class BoosterModel:
    """A booster in training.

    Args:
        booster: booster of the training run; for cross-validation, the booster of its first fold.
        train: the training data; None = unknown.
        evals: evaluated data, with their names.
        container: container of the callbacks; None in a custom loop.
        rounds_asked: requested number of rounds, 0 = unknown.
        given: parameters that the script passes; None = unknown.
    """

    library = "xgboost"

    def __init__(
        self,
        booster: xgboost.Booster,
        train: xgboost.DMatrix | None,
        evals: Evals = (),
        container: CallbackContainer | None = None,
        rounds_asked: int = 0,
        given: Any = None,
    ) -> None:
        self._booster, self._train, self._evals = booster, train, evals
        self._container, self._rounds_asked, self._given = container, rounds_asked, given

    @property
    def _is_cv(self) -> bool:
        return self._container is not None and self._container.is_cv

    def settings(self, latest: Latest) -> Settings:
        """Return the settings of the booster and its callbacks."""
        config: dict[str, Any] = json.loads(self._booster.save_config())
        found: dict[str, str] = {}
        _collect(config["learner"], found)
        objective = config["learner"]["objective"]["name"]
        if self._container is not None and self._container._output_margin:
            objective = "custom"
        linear = found.get("booster") == LINEAR
        stopping, sites = self._stopping(), list(latest)
        stops_on = ""
        if stopping is not None and sites:
            site = stopping.data or sites[-1]
            stops_on = f"{site}/{stopping.metric_name or list(latest.get(site, {'': 0}))[-1]}"
        return Settings(
            objective=objective,
            task="counts" if objective in COUNTS else _task(objective),
            classes=int(_number(found, "num_class")),
            learning_rate=None if linear else _number(found, "learning_rate"),
            max_depth=int(_number(found, "max_depth")),
            max_leaves=int(_number(found, "max_leaves")),
            parameters=found,
            scaled=found.get("scale_pos_weight", "1") != "1",
            stops_after=stopping.rounds if stopping is not None else None,
            stops_on=(stops_on,) if stops_on else (),
            stops_rising=_rises(stopping, stops_on),
            rounds_asked=self._rounds_asked,
            has_trees=not linear,
            ignored=self._ignored(found, stopping is not None),
        )

    def _ignored(self, found: Mapping[str, str], stops: bool) -> dict[str, str] | None:
        """Return the parameters that the library does not know; None if unknown."""
        if not isinstance(self._given, Mapping):
            return None
        given = {name: value for name, value in self._given.items() if value is not None}
        ignored = misspelled(given, {*found, *NOT_IN_CONFIG})
        if given.get(ROUNDS, self._rounds_asked) != self._rounds_asked:
            ignored[ROUNDS] = ""
        if STOPS in given and not stops:
            ignored[STOPS] = ""
        return ignored

    def _stopping(self) -> EarlyStopping | None:
        callbacks = self._container.callbacks if self._container is not None else ()
        return next((one for one in callbacks if isinstance(one, EarlyStopping)), None)

    def tables(self) -> tuple[Table | None, Sequence[tuple[Table, str]]]:
        """Return the training data and the evaluated data."""
        train = None if self._train is None else _table(self._train)
        return train, [(_table(data), name) for data, name in self._evals]

    def train_site(self, latest: Latest) -> str | None:
        """Return the name of the cross-validation data."""
        return ("train" if "train" in latest else "") if self._is_cv else None

    def leaves(self, made: int) -> tuple[Sequence[Floats], int]:
        """Return the leaf values of each tree of a round, and the depth of the deepest."""
        found: list[Floats] = []
        deepest = 0
        for text in self._booster[made : made + 1].get_dump():
            leaves = LEAF.findall(text)
            deepest = max([deepest, *(len(indent) for indent, _ in leaves)])
            # A tree with several outputs has a vector in each leaf.
            values = ",".join(value for _, value in leaves).replace("[", "").replace("]", "")
            found.append(np.array(values.split(","), np.float64))
        return found, deepest

    def gains(self) -> Mapping[str, float]:
        """Return the total gain of the splits of each feature."""
        scores: dict[str, Any] = self._booster.get_score(importance_type="total_gain")
        return {name: float(np.sum(value)) for name, value in scores.items()}

    def importances(self) -> Mapping[str, Mapping[str, float]]:
        """Return the number, gain and coverage of splits by feature, as mean and total."""
        return {
            kind: {
                name: float(np.sum(value))
                for name, value in self._booster.get_score(importance_type=kind).items()
            }
            for kind in ("weight", "gain", "cover", "total_gain", "total_cover")
        }

    def predictions(self, site: str) -> npt.NDArray[Any] | None:
        """Return the predictions for evaluated data that the booster stores."""
        if self._is_cv:
            return None
        data = next((data for data, name in self._evals if name == site), None)
        return None if data is None else self._booster.predict(data)

    def best_round(self) -> int | None:
        """Return the round that early stopping has chosen."""
        best = self._booster.attr("best_iteration")
        return int(best) if best is not None else None


def stored_values(table: xgboost.DMatrix) -> npt.NDArray[Any] | None:
    """Return the values stored in a table; None if it stores bins instead."""
    rows, columns = table.num_row(), table.num_col()
    if type(table) is not xgboost.DMatrix or not 0 < rows * columns <= MAX_CELLS:
        return None
    stored = table.get_data()
    values_RC = np.full((rows, columns), np.nan, np.float32)
    values_RC[np.repeat(np.arange(rows), np.diff(stored.indptr)), stored.indices] = stored.data
    return values_RC


def _table(data: xgboost.DMatrix) -> Table:
    rows, columns = data.num_row(), data.num_col()
    return Table(
        key=data,
        rows=rows,
        columns=columns,
        names=data.feature_names or (),
        labels=data.get_label,
        bounds=lambda: (data.get_float_info(LOWER), data.get_float_info(UPPER)),
        weighted=data.get_weight().size > 0,
        weights=data.get_weight,
        missing_share=1.0 - data.num_nonmissing() / (rows * columns) if rows * columns else None,
        categorical=frozenset(n for n, kind in enumerate(data.feature_types or ()) if kind == "c"),
        groups=lambda: _group_sizes(data),
    )


def _group_sizes(data: xgboost.DMatrix) -> npt.NDArray[np.int64]:
    """Return the sizes of the groups; without groups, all rows are one group."""
    end_G = data.get_uint_info(GROUPS).astype(np.int64)
    return np.diff(end_G) if len(end_G) > 1 else np.array([data.num_row()])


def _collect(node: dict[str, Any], found: dict[str, str]) -> None:
    for name, value in node.items():
        if isinstance(value, dict):
            _collect(value, found)
        elif isinstance(value, str) and value:
            found.setdefault(name, value)


def _number(parameters: dict[str, str], name: str) -> float:
    try:
        return float(parameters.get(name, "0"))
    except ValueError:
        return 0.0


def _task(objective: str) -> str:
    family = objective.partition(":")[0]
    if objective == "reg:logistic":
        return "two_classes"
    return TASKS.get(family, "regression")


def _rises(stopping: EarlyStopping | None, stops_on: str) -> bool | None:
    """Return whether early stopping maximizes its metric, by the library's own rule."""
    if stopping is None:
        return None
    if stopping.maximize is not None:
        return bool(stopping.maximize)
    metric = stops_on.rpartition("/")[2]
    known = ("auc", "aucpr", "pre", "map", "ndcg", "interval-regression-accuracy")
    return metric.partition("@")[0] in known
