"""A model of CatBoost as rounds of boosting: settings, tables, trees, predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import catboost
import numpy as np
import numpy.typing as npt

from mothtrap.core import metrics
from mothtrap.tracing.boosting.models import Floats, Latest, Settings, Table

TASKS: Final = {
    "Logloss": "two_classes",
    "CrossEntropy": "two_classes",
    "MultiClass": "classes",
    "MultiClassOneVsAll": "classes",
    "Poisson": "counts",
    "Tweedie": "counts",
    "YetiRank": "ranking",
    "YetiRankPairwise": "ranking",
    "PairLogit": "ranking",
    "PairLogitPairwise": "ranking",
    "QueryRMSE": "ranking",
    "QuerySoftMax": "ranking",
    "StochasticRank": "ranking",
}
LEARN: Final = "learn"
DEFAULT_DEPTH: Final = 6
DEFAULT_ROUNDS: Final = 1000


class CatModel:
    """A model in training.

    Args:
        model: model in training; it has trees only after the training.
        params: training parameters, under the library's names.
        train: the training data.
        evals: evaluated data, in order.
        labels: labels of the training data and of each evaluation, read before the library clears
            them.
    """

    library = "catboost"

    def __init__(
        self,
        model: catboost.CatBoost,
        params: Mapping[str, Any],
        train: catboost.Pool,
        evals: Sequence[catboost.Pool],
    ) -> None:
        self._model, self._params = model, params
        names = [f"validation_{n}" for n in range(len(evals))] if len(evals) > 1 else ["validation"]
        self._train, self._pools = train, list(zip(evals, names, strict=False))
        self._classes = _classes(train)
        self._table = self._described(train)
        self._evals = [(self._described(pool), name) for pool, name in self._pools]
        self.complete = False

    def _described(self, pool: catboost.Pool) -> Table:
        label = pool.get_label()
        classes = self._classes
        if classes is not None and label is not None:
            label = np.array([classes.get(str(each), -1) for each in label])
        weight_R = _weights(pool, label, self._params.get("class_weights"))
        return Table(
            key=pool,
            rows=pool.num_row(),
            columns=pool.num_col(),
            names=[name or str(n) for n, name in enumerate(pool.get_feature_names())],
            labels=lambda: label,
            weighted=not _is_one(weight_R),
            weights=lambda: weight_R,
            categorical=frozenset(pool.get_cat_feature_indices()),
            groups=lambda: _group_sizes(pool),
        )

    def settings(self, _: Latest) -> Settings:
        """Return the settings of the training."""
        given = self._params
        loss = given.get("loss_function", "RMSE")
        objective = str(loss) if isinstance(loss, str) else "custom"
        after = given.get("od_wait") if given.get("od_type", "Iter") == "Iter" else None
        metric = given.get("eval_metric", loss)
        rate = given.get("learning_rate")
        weighs = ("class_weights", "auto_class_weights", "scale_pos_weight")
        return Settings(
            objective=objective,
            task=TASKS.get(
                objective.partition(":")[0], "" if objective == "custom" else "regression"
            ),
            classes=int(given.get("classes_count", 0) or 0),
            learning_rate=float(rate) if rate is not None else None,
            max_depth=int(given.get("depth", DEFAULT_DEPTH)),
            parameters={name: str(value) for name, value in given.items() if name != "callbacks"},
            scaled=any(given.get(name) not in (None, "None") for name in weighs),
            stops_after=int(after) if after and self._evals else None,
            stops_on=(f"{self._evals[-1][1]}/{metric}",) if after and self._evals else (),
            stops_rising=metrics.sense_by_name(metric) if isinstance(metric, str) else None,
            rounds_asked=int(given.get("iterations", DEFAULT_ROUNDS)),
            # The default: use_best_model is true if there is an evaluation set.
            keeps_best=bool(given.get("use_best_model", True)) and bool(self._evals),
        )

    def tables(self) -> tuple[Table | None, Sequence[tuple[Table, str]]]:
        """Return the training data and the evaluated data."""
        return self._table, [(self._table, LEARN), *self._evals]

    def train_site(self, latest: Latest) -> str | None:
        """Return the name under which the library evaluates the training data."""
        return LEARN if LEARN in latest else None

    def leaves(self, made: int) -> tuple[Sequence[Floats], int] | None:
        """Return the leaf values of each tree of a round, after training has ended."""
        if not self.complete or made >= (self._model.tree_count_ or 0):
            return None
        counts = self._model.get_tree_leaf_counts()
        values = self._model.get_leaf_values()
        outputs = len(values) // max(1, int(counts.sum()))
        first = int(counts[:made].sum()) * outputs
        own_L = values[first : first + int(counts[made]) * outputs]
        return [np.asarray(own_L)[::outputs]], int(np.log2(max(1, int(counts[made]))))

    def gains(self) -> Mapping[str, float]:
        """Return how much each feature changes the predictions, after training has ended."""
        names = self._model.feature_names_ if self.complete else None
        if not names or not self._model.tree_count_:
            return {}
        gain = self._model.get_feature_importance(type="PredictionValuesChange")
        return dict(zip(names, map(float, gain), strict=True))

    def importances(self) -> Mapping[str, Mapping[str, float]]:
        """Return how much each feature changes the predictions."""
        found = self.gains()
        return {"PredictionValuesChange": found} if found else {}

    def predictions(self, site: str) -> npt.NDArray[Any] | None:
        """Return the predictions of the complete model for the user's data."""
        pool = next((pool for pool, name in self._pools if name == site), None)
        settings = self.settings({})
        custom = settings.objective == "custom"
        if custom and site == LEARN:
            pool = self._train
        if not self.complete or pool is None or pool.is_empty_:
            return None
        if custom:
            return np.asarray(self._model.predict(pool, prediction_type="RawFormulaVal"))
        task = settings.task
        if task not in ("two_classes", "classes"):
            return np.asarray(self._model.predict(pool))
        found = np.asarray(self._model.predict(pool, prediction_type="Probability"))
        return found[:, 1] if task == "two_classes" and found.shape[1] == 2 else found

    def best_round(self) -> int | None:
        """Return the best round of the last evaluation."""
        best = self._model.best_iteration_
        return int(best) if best is not None and self._evals else None


def _classes(pool: catboost.Pool) -> dict[str, int] | None:
    """Return the numbers of classes by their texts, if labels are not numbers."""
    label = np.asarray(pool.get_label())
    if label.dtype.kind in "fiub":
        return None
    return {text: number for number, text in enumerate(sorted(set(map(str, label.tolist()))))}


def _weights(pool: catboost.Pool, label: Any, of_classes: Any) -> npt.NDArray[np.float64]:
    """Return the weights of the rows, times those of their classes, given by number."""
    weight_R = np.asarray(pool.get_weight(), np.float64)
    if not isinstance(of_classes, list | tuple) or label is None:
        return weight_R
    number_R = np.unique(np.asarray(label), return_inverse=True)[1].reshape(-1)
    fits = len(weight_R) == len(number_R) and number_R.max(initial=0) < len(of_classes)
    return weight_R * np.asarray(of_classes, np.float64)[number_R] if fits else weight_R


def _group_sizes(pool: catboost.Pool) -> npt.NDArray[np.int64] | None:
    """Return the sizes of the groups. CatBoost requires consecutive rows for each group."""
    found = pool.get_group_id_hash()
    if found is None or np.ndim(found) != 1 or not len(found):
        return None
    id_R = np.asarray(found)
    first_G = np.flatnonzero(np.concatenate([[True], id_R[1:] != id_R[:-1]]))
    return np.diff(np.append(first_G, len(id_R)))


def _is_one(weights: Any) -> bool:
    weights = np.asarray(weights if weights is not None else [])
    return bool((weights == 1).all())
