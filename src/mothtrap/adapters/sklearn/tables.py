"""Tables that estimators of scikit-learn are fitted to and scored on, for `mothtrap check`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal

from sklearn import base, model_selection

from mothtrap.checks.fitted_tables import FittedTable
from mothtrap.tracing.source import frames

Take = Callable[[FittedTable], None]


def collect(take: Take) -> None:
    """Report tables until the process ends.

    `fit` of every estimator first validates its parameters, in a wrapper that contains its
    arguments.
    """
    validate: Callable[..., Any] = base.BaseEstimator._validate_params

    @functools.wraps(validate)
    def validated(estimator: Any) -> Any:
        wrapper = sys._getframe(1)
        if wrapper.f_code.co_name == "wrapper" and "fit_method" in wrapper.f_code.co_freevars:
            _take_fit(take, estimator, wrapper)
        return validate(estimator)

    setattr(base.BaseEstimator, "_validate_params", validated)  # noqa: B010  # for the type checker
    for kind in (base.ClassifierMixin, base.RegressorMixin):
        setattr(kind, "score", _scored(kind.score, take))  # noqa: B010
    split = model_selection.train_test_split
    model_selection.train_test_split = _split(split, take)


def _take_fit(take: Take, estimator: Any, wrapper: FrameType) -> None:
    args, kwargs = wrapper.f_locals.get("args", ()), wrapper.f_locals.get("kwargs", {})
    given = dict(zip(("X", "y"), args, strict=False)) | kwargs
    if given.get("X") is None or given.get("y") is None:
        return
    caller = wrapper.f_back
    take(
        FittedTable(
            x=given["X"],
            y=given["y"],
            role="train",
            task=task_of(estimator),
            model=type(estimator).__name__,
            location=frames.user_location(),
            direct=caller is not None and frames.is_users(caller),
        )
    )


def task_of(estimator: Any) -> Literal["classes", "numbers", ""]:
    """Return the task of an estimator."""
    if base.is_classifier(estimator):
        return "classes"
    return "numbers" if base.is_regressor(estimator) else ""


def _scored(original: Callable[..., Any], take: Take) -> Callable[..., Any]:
    @functools.wraps(original)
    def score(estimator: Any, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        if frames.is_users(sys._getframe(1)):
            take(FittedTable(x=X, y=y, role="evaluation", location=frames.user_location()))
        return original(estimator, X, y, *args, **kwargs)

    return score


def _split(original: Callable[..., Any], take: Take) -> Callable[..., Any]:
    @functools.wraps(original)
    def train_test_split(*arrays: Any, **kwargs: Any) -> Any:
        found = original(*arrays, **kwargs)
        if len(arrays) > 1 and frames.is_users(sys._getframe(1)):
            place = frames.user_location()
            take(FittedTable(x=found[1], y=found[3], role="evaluation", location=place))
        return found

    return train_test_split
