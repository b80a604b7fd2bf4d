"""Tables that XGBoost is trained and evaluated on, for `mothtrap check`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import xgboost

from mothtrap.adapters.xgboost.model import stored_values
from mothtrap.checks.fitted_tables import FittedTable
from mothtrap.tracing.source import frames


def collect(take: Callable[[FittedTable], None]) -> None:
    """Report tables until the process ends."""
    train: Callable[..., Any] = xgboost.train

    @functools.wraps(train)
    def trained(params: Any, dtrain: Any, *args: Any, **kwargs: Any) -> Any:
        _take(take, params, dtrain, kwargs.get("evals") or ())
        return train(params, dtrain, *args, **kwargs)

    for module in (xgboost, xgboost.training):
        setattr(module, "train", trained)  # noqa: B010  # for the type checker
    for kind in (xgboost.XGBModel, xgboost.XGBClassifier):
        setattr(kind, "fit", _fitted(kind.fit, take))  # noqa: B010  # for the type checker


def _fitted(original: Callable[..., Any], take: Callable[[FittedTable], None]) -> Any:
    """Return the wrapped `fit` of an estimator, whose tables contain bins instead of values."""

    @functools.wraps(original)
    def fit(model: Any, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        classes = isinstance(model, xgboost.XGBClassifier)
        task = "classes" if classes else _task(getattr(model, "objective", None))
        for x, target, trains in [
            (X, y, True),
            *((*s, False) for s in kwargs.get("eval_set") or ()),
        ]:
            take(
                FittedTable(
                    x=x,
                    y=target,
                    role="train" if trains else "evaluation",
                    task=task,
                    model=type(model).__name__,
                    location=frames.user_location(),
                )
            )
        return original(model, X, y, *args, **kwargs)

    return fit


def _take(take: Callable[[FittedTable], None], params: Any, table: Any, evaluations: Any) -> None:
    task = _task(dict(params).get("objective") if params else None)
    others = [one for one, _ in evaluations if one is not table]
    for each in (table, *others):
        x = stored_values(each)
        if x is not None:
            take(
                FittedTable(
                    x=x,
                    y=each.get_label(),
                    role="train" if each is table else "evaluation",
                    task=task,
                    model="Booster",
                    location=frames.user_location(),
                )
            )


def _task(objective: object) -> Literal["classes", "numbers"]:
    """Return the task of an objective such as `binary:logistic`; a function is a regression."""
    return "classes" if str(objective).startswith(("binary", "multi")) else "numbers"
