"""Replaced functions of scikit-learn, and the handle that restores them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from sklearn.linear_model import _stochastic_gradient as linear
from sklearn.neural_network import _multilayer_perceptron as network
from sklearn.neural_network._stochastic_optimizers import AdamOptimizer, BaseOptimizer

from mothtrap.adapters.sklearn import callbacks, fits
from mothtrap.adapters.sklearn.fits import Fit
from mothtrap.adapters.sklearn.whole_fits import WholeFits
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.estimators import (
    EstimatorFitted,
    PredictionsCompared,
    TransformRefitted,
)
from mothtrap.core.facts.evaluations import EvaluationMetrics
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.pipelines import ShuffledApart
from mothtrap.core.facts.trees import ColumnsSeen, TablesDiffer, TableSeen
from mothtrap.core.tensors import TensorInfo
from mothtrap.tracing.boosting.handle import Function
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.replacements import Replacements, drop_own_frame

OF_FITS: Final = (LossSeries, DataTaken, ColumnsSeen, EstimatorFitted, TableSeen)
OF_EVALUATIONS: Final = (EvaluationMetrics,)
OF_PREDICTIONS: Final = (
    *(RowsShared, TablesDiffer, PredictionsCompared, TransformRefitted),
    ShuffledApart,
)
MAX_LOOKS: Final = 4
NETWORK: Final = network.BaseMultilayerPerceptron
LINEAR: Final = (linear.BaseSGDClassifier, linear.BaseSGDRegressor)
_EXACT: Final = {"identity", "logistic", "tanh", "relu"}


class _Here(threading.local):
    """The fit in progress of a thread, with its estimator.

    `depth` counts the fits around it that callbacks observe.
    """

    fit: Fit | None = None
    estimator: Any = None
    depth: int = 0


class SklearnHandle(BaseHandle):
    """Handle for scikit-learn.

    Args:
        job: receives the observations.
        targets: estimators whose fits are watched, including nested fits; empty = the whole
            process.

    Attributes:
        closed: number of steps so far.
        labels: label of the latest fit of each estimator.
    """

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._here = _Here()
        self._partial: weakref.WeakKeyDictionary[Any, Fit] = weakref.WeakKeyDictionary()
        self._made = 0
        self.closed = 0
        self.labels: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._whole = WholeFits(self, (NETWORK, *LINEAR, *callbacks.WATCHED))
        super().__init__(job, targets)

    def install(self, replacements: Replacements) -> None:
        """Replace the functions that fit networks and linear models; use callbacks if available."""
        replacements.replace(NETWORK, "_fit", self._around_fit)
        replacements.replace(NETWORK, "_backprop", self._around_backprop)
        replacements.replace(NETWORK, "_update_no_improvement_count", self._around_validation)
        replacements.replace(BaseOptimizer, "update_params", self._around_update)
        for kind in LINEAR:
            replacements.replace(kind, "_partial_fit", self._around_linear_fit)
        callbacks.install(self, replacements)
        self._whole.install(replacements)

    def end(self) -> None:
        """Report the last fit, and predictions of training rows only."""
        self._whole.end()

    def watches(self, target: object) -> bool:
        """Return whether an estimator is observed, or fitted within an observed one."""
        return super().watches(target) or self._here.depth > 0

    def enter(self) -> bool:
        """Begin a fit that may contain other fits; return whether it is the outermost."""
        here = self._here
        here.depth += 1
        return here.depth == 1 and here.fit is None

    def leave(self) -> None:
        """End a fit that `enter` began."""
        self._here.depth -= 1

    def _around_fit(self, original: Function) -> Function:
        def _fit(estimator: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
            call = "partial_fit" if kwargs.get("incremental") or True in args[1:2] else "fit"
            return self._fitting(original, estimator, call, x, y, args, kwargs)

        return _fit

    def _around_linear_fit(self, original: Function) -> Function:
        def _partial_fit(estimator: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
            most = args[3] if len(args) > 3 else kwargs.get("max_iter")
            call = "partial_fit" if most == 1 and estimator.max_iter != 1 else "fit"
            return self._fitting(original, estimator, call, x, y, args, kwargs)

        return _partial_fit

    def _fitting(
        self,
        original: Function,
        estimator: Any,
        call: str,
        x: Any,
        y: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a fit of the library, and report it when it ends, even with an exception."""
        if not self.watches(estimator):
            return original(estimator, x, y, *args, **kwargs)
        here, outer = self._here, (self._here.fit, self._here.estimator)
        here.fit = self.job.contain(self.begin, estimator, call)
        here.estimator = estimator
        try:
            return original(estimator, x, y, *args, **kwargs)
        except BaseException as err:
            drop_own_frame(err)
            raise
        finally:
            fit, (here.fit, here.estimator) = here.fit, outer
            if fit is not None:
                self.job.contain(self._ended, fit, estimator, call, x, y)

    def begin(self, estimator: Any, call: str) -> Fit:
        """Return the record of a fit that begins, or that a partial fit continues."""
        fit = self._partial.get(estimator) if call == "partial_fit" else None
        if fit is None:
            self._made += 1
            fit = fits.begin(estimator, call, self._made)
            if call == "partial_fit":
                self._partial[estimator] = fit
            self.labels[estimator] = fit.label
        fit.calls += 1
        return fit

    def _ended(self, fit: Fit, estimator: Any, call: str, x: Any, y: Any) -> None:
        is_network = isinstance(estimator, NETWORK)
        weight = getattr(estimator, "coef_", None)
        if is_network:
            weight = next(iter(getattr(estimator, "coefs_", ())), None)
        if weight is None:
            return  # it failed before it had any
        if not is_network:
            self._look(fit, estimator, x, weight)
            self.take_linear(fit, estimator)
            self.close(fit)
        elif not fit.steps:  # by lbfgs, in a single call
            self._look(fit, estimator, x, weight)
            fit.loss = float(getattr(estimator, "loss_", np.nan))
            self.close(fit)
        if fit.calls & (fit.calls - 1):
            return
        if fit.calls == 1:
            self._report_columns(fit, estimator, x, y)
        output = self._output(estimator, x, is_network)
        step = self.job.now.step
        self.job.fact(fits.fitted(fit, estimator, call, x, y, output, step=step))

    def _report_columns(self, fit: Fit, estimator: Any, x: Any, y: Any) -> None:
        classes = getattr(estimator, "classes_", None) is not None
        if np.ndim(y) == 1 and estimator not in self._partial:
            table = fits.table_seen(fit, estimator, x, y, step=self.job.now.step, classes=classes)
            self.job.fact(table)
        seen = fits.columns_seen(
            fit, x, y, step=self.job.now.step, classes=classes, names=fits.names(estimator, x)
        )
        if seen is not None:
            self.job.fact(seen)

    def report_fit(
        self, fit: Fit, estimator: Any, x: Any, y: Any, *, columns: bool, losses: Sequence[float]
    ) -> None:
        """Report a fit that callbacks observed.

        Args:
            fit: fit that has ended.
            estimator: logistic regression, a pipeline, or a search.
            x: table of rows.
            y: labels.
            columns: report its columns.
            losses: losses of the iterations.
        """
        if columns:
            self._report_columns(fit, estimator, x, y)
        linear = hasattr(estimator, "coef_")
        output = self._output(estimator, x, False) if linear else None
        step = self.job.now.step
        found = fits.fitted(fit, estimator, "fit", x, y, output, step=step, losses=losses)
        if found.exhausted:  # otherwise the scale of the columns did no harm
            self._look(fit, estimator, x, estimator.coef_)
        self.job.fact(found)

    def report_score(self, name: str, score: float) -> None:
        """Report an evaluation score, for which greater is better."""
        self.job.stood_ready(OF_EVALUATIONS)
        self.job.evaluation(name, {"score": score}, higher_is_better=frozenset({"score"}))

    def _output(self, estimator: Any, x: Any, is_network: bool) -> Any:
        """Return scores of some rows, computed from the weights without calling user code."""
        rows = fits.dense(x)
        if rows is None or not np.isfinite(rows).all():
            return None
        if not is_network:
            return rows @ estimator.coef_.reshape(-1, rows.shape[1]).T + estimator.intercept_
        if estimator.activation not in _EXACT or estimator.coefs_[0].shape[0] != rows.shape[1]:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            for number, (weight, bias) in enumerate(
                zip(estimator.coefs_, estimator.intercepts_, strict=True)
            ):
                rows = rows @ weight + bias
                if number < len(estimator.coefs_) - 1:
                    rows = _activated(rows, estimator.activation)
        return rows

    def _around_backprop(self, original: Function) -> Function:
        def _backprop(estimator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(estimator, x, *args, **kwargs)
            fit = self._here.fit
            if fit is not None and self._here.estimator is estimator:
                fit.loss = float(result[0])
                if fit.looks < MAX_LOOKS:
                    self.job.contain(self._look, fit, estimator, x, estimator.coefs_[0])
            return result

        return _backprop

    def _around_update(self, original: Function) -> Function:
        def update_params(optimizer: Any, params: Any, grads: Any) -> Any:
            fit = self._here.fit
            if fit is None:
                return original(optimizer, params, grads)
            names = self.job.contain(self._before, fit, grads)
            result = original(optimizer, params, grads)
            if names:
                self.job.contain(self._after, fit, optimizer, names, params)
            return result

        return update_params

    def _before(self, fit: Fit, grads: Sequence[Any]) -> list[str]:
        half = len(grads) // 2
        names = [f"coefs_.{n}" for n in range(half)] + [f"intercepts_.{n}" for n in range(half)]
        self._take("gradient", fit, names, grads)
        return names

    def _after(self, fit: Fit, optimizer: Any, names: list[str], params: Sequence[Any]) -> None:
        self._take("weight", fit, names, params)
        # whose learning rate per step is corrected for bias
        adam = isinstance(optimizer, AdamOptimizer)
        rate = optimizer.learning_rate_init if adam else optimizer.learning_rate
        self.job.scalar("lr", fit.label, float(rate))
        self.close(fit)

    def close(self, fit: Fit) -> None:
        """Close a step of a fit."""
        losses = []
        if fit.loss is not None:
            losses.append(Losses(series=fit.label, value=fit.loss, location=fit.location or None))
        fit.steps += 1
        self.closed += 1
        self.job.stood_ready(OF_FITS)
        self.job.stood_ready(OF_PREDICTIONS)
        self.job.step(losses)

    def take_linear(self, fit: Fit, estimator: Any) -> None:
        """Capture the weights of a linear model."""
        intercept = np.atleast_1d(estimator.intercept_)
        self._take("weight", fit, ["coef_", "intercept_"], [estimator.coef_, intercept])

    def _take(self, kind: str, fit: Fit, names: Sequence[str], arrays: Sequence[Any]) -> None:
        if kind not in fit.ids:
            number = fit.label.partition("#")[2]
            mark = f"#{number}" if number else ""
            fit.ids[kind] = [
                self.job.define(
                    TensorInfo(
                        kind=kind,
                        name=f"{name}{mark}",
                        shape=tuple(array.shape),
                        dtype=array.dtype.name,
                    )
                )
                for name, array in zip(names, arrays, strict=True)
            ]
        if self.job.wants(kind):
            self.job.take(kind, fit.ids[kind], list(arrays))

    def _look(self, fit: Fit, estimator: Any, x: Any, weight: Any) -> None:
        """Report the values of a batch, or of both halves of a table."""
        rows = fits.dense(x)
        if rows is None or not np.isfinite(rows).all() or len(rows) < 2:
            return
        is_network = isinstance(estimator, NETWORK)
        parts = [rows] if is_network and fit.steps else [rows[::2], rows[1::2]]
        for part in parts:
            fit.looks += 1
            self.job.fact(
                fits.data_taken(
                    part,
                    weight,
                    step=self.job.now.step,
                    layer="coefs_.0" if is_network else "coef_",
                    kind=type(estimator).__name__,
                    place=fit.location,
                )
            )

    def _around_validation(self, original: Function) -> Function:
        def _update(estimator: Any, early_stopping: bool, *args: Any, **kwargs: Any) -> Any:
            result = original(estimator, early_stopping, *args, **kwargs)
            fit = self._here.fit
            if early_stopping and fit is not None and estimator.validation_scores_:
                score = float(estimator.validation_scores_[-1])
                self.job.contain(self.report_score, f"validation of {fit.label}", score)
            return result

        return _update


def _activated(values: Any, name: str) -> Any:
    if name == "relu":
        return np.maximum(values, 0)
    if name == "tanh":
        return np.tanh(values)
    return 1 / (1 + np.exp(-values)) if name == "logistic" else values
