"""Functions of CatBoost that are replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import catboost
from catboost.core import _CatBoostBase

from mothtrap.adapters.catboost.model import CatModel
from mothtrap.core.adapters import Job
from mothtrap.tracing.boosting.handle import BoostingHandle, Function
from mothtrap.tracing.boosting.samples import Samples
from mothtrap.tracing.replacements import Replacements, drop_own_frame


class AfterRound:
    """Training callback that calls the user's callbacks first.

    Args:
        handle: receives the rounds.
        model: model in training.
        own: the user's callbacks, as wrapped by the library, or None.
    """

    def __init__(self, handle: CatBoostHandle, model: CatModel, own: Any) -> None:
        self._handle, self._model, self._own = handle, model, own

    def after_iteration(self, info: Any) -> bool:
        """Process a complete round; return whether to continue."""
        goes_on = self._own is None or bool(self._own.after_iteration(info))
        self._handle.job.contain(self._closed, info)
        return goes_on and not self._handle.stops_now()

    def _closed(self, info: Any) -> None:
        latest = {
            site: {name: float(values[-1]) for name, values in metrics.items() if values}
            for site, metrics in info.metrics.items()
        }
        self._handle.rounds.closed(self, self._model, info.iteration - 1, latest, "fit")

    def ended(self) -> None:
        """Process the end of training, when the trees become available."""
        self._model.complete = True
        self._handle.rounds.ended(self, self._model)


class CatBoostHandle(BoostingHandle):
    """Handle for CatBoost."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        super().__init__(job, targets, Samples())

    def install(self, replacements: Replacements) -> None:
        """Replace the functions that create tables and train."""
        self.watch_predictions(catboost.CatBoostRegressor, catboost.CatBoostClassifier)
        self.after(catboost.Pool, "__init__", self._made_table)
        replacements.replace(_CatBoostBase, "_train", self._around_training)

    def _around_training(self, original: Function) -> Function:
        def _train(
            model: Any, train: Any, evals: Any, params: Any, *args: Any, **kwargs: Any
        ) -> Any:
            callback = self.job.contain(self._prepared, model, train, evals, params)
            if callback is not None:
                params = {**params, "callbacks": callback}
            try:
                result = original(model, train, evals, params, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            if callback is not None:
                self.job.contain(callback.ended)
            return result

        return _train

    def _prepared(self, model: Any, train: Any, evals: Any, params: Any) -> AfterRound | None:
        if self.targets and not any(t is model or t is train for t in self.targets):
            return None
        if str(params.get("task_type", "CPU")).upper() == "GPU":
            self.job.blind("training on a GPU", "CatBoost calls no callbacks there")
            return None
        return AfterRound(
            self, CatModel(model, params, train, evals or ()), params.get("callbacks")
        )

    def _made_table(
        self, table: Any, _: None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        data = args[0] if args else kwargs.get("data")
        self.job.contain_part("tables", self.samples.made, table, data)
        self.job.contain_part("order", self.look_at_order, data, args, kwargs)
