"""A booster of LightGBM as rounds of boosting: settings, tables, trees, predictions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import lightgbm
import numpy as np
import numpy.typing as npt

from mothtrap.core import metrics
from mothtrap.tracing.boosting.models import Floats, Latest, Settings, Table
from mothtrap.tracing.boosting.unknown import misspelled

TASKS: Final = {
    "binary": "two_classes",
    "cross_entropy": "two_classes",
    "multiclass": "classes",
    "multiclassova": "classes",
    "poisson": "counts",
    "gamma": "counts",
    "tweedie": "counts",
    "lambdarank": "ranking",
    "rank_xendcg": "ranking",
    "custom": "",
    "none": "",
}
_PARAMETER: Final = re.compile(r"^\[([a-z_0-9]+): (.*)\]$", re.MULTILINE)
Row = Sequence[Any]
"""Name of the data, metric, value, whether greater is better; in cross-validation also the spread.
"""


class BoosterModel:
    """A booster in training.

    Args:
        booster: booster of the training run; for cross-validation, the booster of its first fold.
        rows: rows of the latest evaluation.
        stopping: the callback that stops early, or None.
        rounds_asked: requested number of rounds, 0 = unknown.
        is_cv: the metrics are means over folds.
        custom: the objective is a user-defined function.
    """

    library = "lightgbm"

    def __init__(
        self,
        booster: lightgbm.Booster,
        rows: Sequence[Row] = (),
        *,
        stopping: Any = None,
        rounds_asked: int = 0,
        is_cv: bool = False,
        custom: bool = False,
    ) -> None:
        self._booster, self._rows, self._stopping = booster, rows, stopping
        self._rounds_asked, self._is_cv, self._custom = rounds_asked, is_cv, custom

    @property
    def _train_name(self) -> str:
        return str(getattr(self._booster, "_train_data_name", "training"))

    def settings(self, _: Latest) -> Settings:
        """Return the settings of the booster and its callbacks."""
        found = dict(_PARAMETER.findall(self._booster.model_to_string(num_iteration=1)))
        objective = "custom" if self._custom else found.get("objective", "custom")
        after = self._stopping.stopping_rounds if self._stopping is not None else None
        after = after or int(_number(found, "early_stopping_round")) or None
        own = {"train", self._train_name}
        watched = [row for row in self._rows if row[0] not in own]
        watched.sort(key=lambda row: not _is_reversed(row))
        stops = watched[0] if after and watched else None
        return Settings(
            objective=objective,
            task=TASKS.get(objective, "regression"),
            classes=int(_number(found, "num_class")) if objective.startswith("multi") else 0,
            learning_rate=_number(found, "learning_rate"),
            max_depth=max(0, int(_number(found, "max_depth"))),
            max_leaves=int(_number(found, "num_leaves")),
            parameters=found,
            scaled=found.get("scale_pos_weight", "1") != "1" or found.get("is_unbalance") == "1",
            stops_after=after,
            stops_on=tuple(f"{row[0]}/{row[1]}" for row in watched) if after else (),
            stops_rising=bool(stops[3]) if stops is not None else None,
            rounds_asked=self._rounds_asked,
            rising=frozenset(row[1] for row in self._rows if row[3]),
            ignored=_ignored(self._booster.params),
        )

    def tables(self) -> tuple[Table | None, Sequence[tuple[Table, str]]]:
        """Return the training data and the evaluated data."""
        train = self._booster.train_set
        if train is None or self._is_cv:
            return None, ()
        named = zip(self._booster.valid_sets, self._booster.name_valid_sets, strict=True)
        evals = [(_table(data), name) for data, name in named]
        if any(row[0] == self._train_name for row in self._rows):
            evals.insert(0, (_table(train), self._train_name))
        return _table(train), evals

    def train_site(self, latest: Latest) -> str | None:
        """Return the name under which the library evaluates the training data."""
        if self._is_cv:
            return "train" if "train" in latest else ""
        return self._train_name if self._train_name in latest else None

    def leaves(self, made: int) -> tuple[Sequence[Floats], int]:
        """Return the leaf values of each tree of a round, and the depth of the deepest."""
        text = self._booster.dump_model(start_iteration=made, num_iteration=1)
        found, deepest = [], 0
        for tree in text["tree_info"]:
            values: list[float] = []
            waiting = [(tree["tree_structure"], 0)]
            while waiting:
                node, depth = waiting.pop()
                deepest = max(deepest, depth)
                if "leaf_value" in node:
                    values.append(float(node["leaf_value"]))
                else:
                    waiting += [(node[side], depth + 1) for side in ("left_child", "right_child")]
            found.append(np.array(values))
        return found, deepest

    def gains(self) -> Mapping[str, float]:
        """Return the gain of each feature's splits, including trees after the best round."""
        gain = self._booster.feature_importance("gain", iteration=0).tolist()
        return dict(zip(self._booster.feature_name(), gain, strict=True))

    def importances(self) -> Mapping[str, Mapping[str, float]]:
        """Return the number and gain of splits by feature."""
        names = self._booster.feature_name()
        return {
            kind: dict(zip(names, self._booster.feature_importance(kind).tolist(), strict=True))
            for kind in ("split", "gain")
        }

    def predictions(self, site: str) -> npt.NDArray[Any] | None:
        """Return the predictions for evaluated data that the booster stores."""
        predict = getattr(self._booster, "_Booster__inner_predict", None)
        if predict is None or self._is_cv or self._booster.train_set is None:
            return None
        names = [self._train_name, *self._booster.name_valid_sets]
        return np.array(predict(data_idx=names.index(site))) if site in names else None

    def best_round(self) -> int | None:
        """Return the round that early stopping has chosen."""
        best = self._booster.best_iteration
        return best - 1 if best > 0 else None


def _is_reversed(row: Sequence[Any]) -> bool:
    """Return whether a metric's direction is not the one that its name says."""
    by_name = metrics.sense_by_name(row[1])
    return by_name is not None and by_name != bool(row[3])


def _table(data: lightgbm.Dataset) -> Table:
    names = data.get_feature_name()
    return Table(
        key=data,
        rows=data.num_data(),
        columns=data.num_feature(),
        names=names,
        labels=data.get_label,
        weighted=data.get_weight() is not None,
        weights=data.get_weight,
        categorical=_categorical(data, names),
        groups=data.get_group,
    )


def _categorical(data: lightgbm.Dataset, names: Sequence[str]) -> frozenset[int]:
    declared = data.categorical_feature
    if not isinstance(declared, list):
        declared = data.params.get("categorical_column", []) if data.params else []
    if not isinstance(declared, list | tuple | set):
        return frozenset()
    return frozenset(
        names.index(each) if isinstance(each, str) else int(each)
        for each in declared
        if not isinstance(each, str) or each in names
    )


def _ignored(given: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return the parameters that the library does not know; None if its names are unknown."""
    aliases = getattr(lightgbm.basic, "_ConfigAliases", None)
    if aliases is None or not isinstance(given, Mapping):
        return None
    aliases.get("learning_rate")  # loads all names
    known = {name for names in aliases.aliases.values() for name in names}
    set_to = (name for name, value in given.items() if value is not None)
    return misspelled(set_to, known | set(aliases.aliases))


def _number(parameters: Mapping[str, str], name: str) -> float:
    try:
        return float(parameters.get(name, "0"))
    except ValueError:
        return 0.0
