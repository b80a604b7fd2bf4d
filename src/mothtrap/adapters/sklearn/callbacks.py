"""Observe logistic regression, searches, and pipelines with the callbacks of scikit-learn 1.9.

Estimators that support callbacks begin each fit with `_init_callback_context`. There mothtrap's
callback is added for this one fit. Lists that contain it are pickled without it, so that a worker
process of a search neither needs mothtrap nor fails.

Shape suffixes: R = rows, F = features, K = classes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from mothtrap.adapters.sklearn import fits
from mothtrap.adapters.sklearn.fits import Fit, Floats
from mothtrap.core.adapters import Job
from mothtrap.tracing.replacements import Replacements, drop_own_frame
from mothtrap.tracing.source import frames

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before 1.9
    CallbackSupportMixin = None

META: Final = (BaseSearchCV, Pipeline)
WATCHED: Final = () if CallbackSupportMixin is None else (LogisticRegression, *META)
"""Estimators that are observed with callbacks; empty before scikit-learn 1.9."""
REFIT: Final = "refit-with-best-params"
"""Name of the task in which a search fits the best candidate to all rows."""
EVERY_ITERATION: Final = 256
LATER: Final = 16
"""Each of the first iterations of a fit is a step, then every sixteenth; chosen by hand.
"""
Function = Callable[..., Any]


class FitReports(Protocol):
    """Methods of a handle for the fits that callbacks observe; see `SklearnHandle`."""

    job: Job
    closed: int

    def watches(self, target: object) -> bool:
        """Return whether an estimator is observed, or fitted within an observed one."""

    def enter(self) -> bool:
        """Begin a fit that may contain other fits; return whether it is the outermost."""

    def leave(self) -> None:
        """End a fit that `enter` began."""

    def begin(self, estimator: Any, call: str) -> Fit:
        """Return the record of a fit that begins."""

    def take_linear(self, fit: Fit, estimator: Any) -> None:
        """Capture the weights of a linear model."""

    def close(self, fit: Fit) -> None:
        """Close a step of a fit."""

    def report_score(self, name: str, score: float) -> None:
        """Report an evaluation score, for which greater is better."""

    def report_fit(
        self, fit: Fit, estimator: Any, x: Any, y: Any, *, columns: bool, losses: Sequence[float]
    ) -> None:
        """Report a completed fit, with its table and labels."""


def install(handle: FitReports, replacements: Replacements) -> None:
    """Observe all fits in the process for a handle, if the library supports callbacks."""
    if CallbackSupportMixin is not None:
        around = FitCallback(handle).around_init
        replacements.replace(CallbackSupportMixin, "_init_callback_context", around)


class Callbacks(list[Any]):
    """An estimator's callbacks including mothtrap's, which pickles and copies leave out."""

    def __reduce_ex__(self, protocol: object) -> tuple[type[list[Any]], tuple[list[Any]]]:
        """Return a plain list of the user's callbacks."""
        return list, ([one for one in self if not isinstance(one, FitCallback)],)


@dataclass(slots=True, eq=False, kw_only=True)
class OpenFit:
    """A fit in progress.

    Attributes:
        estimator: the fitted estimator.
        fit: its label and line.
        given: the user's callbacks; None = the estimator has no list of callbacks.
        error: error that was being handled when the fit began.
        steps: steps that the handle had closed when the fit began.
        outermost: whether it is not part of another observed fit.
        columns: whether to report the columns of its table.
        iterations: number of solver iterations so far.
        losses: losses of the iterations that are steps.
    """

    estimator: Any
    fit: Fit
    given: list[Any] | None
    error: BaseException | None
    steps: int
    outermost: bool
    columns: bool
    x: Any = None
    y: Any = None
    iterations: int = 0
    losses: list[float] = field(default_factory=list)
    sample: tuple[Floats, Any] | None = None


class FitCallback:
    """Callback of scikit-learn that reports fits to a handle; never raises.

    Args:
        handle: handle that observes the process.
    """

    def __init__(self, handle: FitReports) -> None:
        self._handle = handle
        self._open: dict[int, OpenFit] = {}
        self._made: Counter[tuple[str, str]] = Counter()

    def __reduce__(self) -> tuple[type[Deaf], tuple[()]]:
        """Return a callback that does nothing, because other processes have no handle."""
        return Deaf, ()

    def around_init(self, original: Function) -> Function:
        """Return `_init_callback_context` that adds this callback to the fit."""

        def _init_callback_context(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            opened = self._handle.job.contain(self._join, estimator)
            try:
                context = original(estimator, *args, **kwargs)
            except BaseException as err:
                if opened is not None:
                    self._leave(opened)
                drop_own_frame(err)
                raise
            if opened is not None:
                estimator._skl_callbacks_to_teardown = Callbacks(
                    estimator._skl_callbacks_to_teardown
                )
            return context

        return _init_callback_context

    def _join(self, estimator: Any) -> OpenFit | None:
        """Add this callback to an estimator, unless enough fits of this line were observed."""
        handle = self._handle
        if not isinstance(estimator, WATCHED) or not handle.watches(estimator):
            return None
        if id(estimator) in self._open:
            return None
        kind = frames.user_location() or "", type(estimator).__name__
        self._made[kind] += 1
        number = self._made[kind]
        refit = _is_refit(estimator)
        if number & (number - 1) and not refit:
            return None
        outermost = handle.enter()
        given = estimator.__dict__.get("_skl_callbacks")
        opened = OpenFit(
            estimator=estimator,
            fit=handle.begin(estimator, "fit"),
            given=given,
            error=sys.exc_info()[1],
            steps=handle.closed,
            outermost=outermost,
            columns=refit or number == 1,
        )
        self._open[id(estimator)] = opened
        # `set_callbacks` would warn about solvers without iterations, and create a plain list.
        estimator._skl_callbacks = Callbacks([*(given or ()), self])
        return opened

    def _leave(self, opened: OpenFit) -> None:
        """Remove this callback from an estimator."""
        self._open.pop(id(opened.estimator), None)
        self._handle.leave()
        if opened.given is None:
            opened.estimator.__dict__.pop("_skl_callbacks", None)
        else:
            opened.estimator._skl_callbacks = opened.given

    def setup(self, estimator: object, context: object) -> None:
        """Do nothing, because the fit is already open."""

    def teardown(self, estimator: object, context: object) -> None:  # noqa: ARG002  # protocol
        """Report a fit that has ended or failed."""
        opened = self._open.get(id(estimator))
        if opened is None:
            return
        self._leave(opened)
        if sys.exc_info()[1] is opened.error:
            self._handle.job.contain(self._ended, opened)

    def on_fit_task_begin(
        self,
        estimator: Any,
        context: object,
        *,
        X: Any = None,  # name of the library
        y: Any = None,
    ) -> None:
        """Store the table of a fit until it ends."""
        opened = self._open.get(id(estimator))
        if opened is not None and context is getattr(estimator, "_callback_fit_ctx", None):
            opened.x, opened.y = X, y

    def on_fit_task_end(
        self, estimator: Any, context: object, *, fitted_estimator: Any = None
    ) -> None:
        """Report an iteration of the solver as a step."""
        opened = self._open.get(id(estimator))
        if opened is None or fitted_estimator is None or isinstance(estimator, META):
            return
        if context is not getattr(estimator, "_callback_fit_ctx", None):
            self._handle.job.contain(self._iterated, opened, fitted_estimator)

    def _iterated(self, opened: OpenFit, fitted: Any) -> None:
        opened.iterations += 1
        if opened.iterations > EVERY_ITERATION and opened.iterations % LATER:
            return
        if not isinstance(fitted.coef_, np.ndarray):  # array of another library
            return
        if opened.sample is None:
            opened.sample = _sample(opened.x, opened.y)
        loss = log_loss(*opened.sample, fitted) if opened.sample is not None else None
        opened.fit.loss = loss
        if loss is not None:
            opened.losses.append(loss)
        self._handle.take_linear(opened.fit, fitted)
        self._handle.close(opened.fit)

    def _ended(self, opened: OpenFit) -> None:
        handle, estimator, fit = self._handle, opened.estimator, opened.fit
        nothing_inside = handle.closed == opened.steps
        if isinstance(estimator, META):
            if not (opened.outermost and nothing_inside and _predicts(estimator)):
                self._score(opened)
                return
        elif not isinstance(estimator.coef_, np.ndarray):
            return
        elif nothing_inside:
            handle.take_linear(fit, estimator)
        if nothing_inside:
            handle.close(fit)
        if _is_table(opened.x) and opened.y is not None:
            handle.report_fit(
                fit, estimator, opened.x, opened.y, columns=opened.columns, losses=opened.losses
            )
        self._score(opened)

    def _score(self, opened: OpenFit) -> None:
        """Report the score of the best candidate of a search."""
        score = getattr(opened.estimator, "best_score_", None)
        if isinstance(score, float) and np.isfinite(score):
            self._handle.report_score(f"cross-validation of {opened.fit.label}", float(score))


class Deaf:
    """Callback without any effect."""

    def setup(self, estimator: object, context: object) -> None:
        """Do nothing."""

    def teardown(self, estimator: object, context: object) -> None:
        """Do nothing."""

    def on_fit_task_begin(self, estimator: object, context: object) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: object, context: object) -> None:
        """Do nothing."""


def log_loss(rows_RF: Floats, label_R: Any, fitted: Any) -> float:
    """Return the mean logarithmic loss of some rows, without the penalty.

    Args:
        rows_RF: finite rows.
        label_R: number of the class of each.
        fitted: logistic regression with `coef_` (1 row for two classes) and `intercept_`.
    """
    coef_KF = np.asarray(fitted.coef_, np.float64)
    score_RK = rows_RF @ coef_KF.T + np.asarray(fitted.intercept_, np.float64)
    if score_RK.shape[1] == 1:
        score_RK = np.hstack([np.zeros_like(score_RK), score_RK])
    top_R1 = score_RK.max(axis=1, keepdims=True)
    total_R = top_R1[:, 0] + np.log(np.exp(score_RK - top_R1).sum(axis=1))
    return float((total_R - score_RK[np.arange(len(label_R)), label_R]).mean())


def _sample(x: Any, y: Any) -> tuple[Floats, Any] | None:
    """Return some rows and the numbers of their classes; None if they cannot be read."""
    rows_RF = fits.dense(x)
    if rows_RF is None or not np.isfinite(rows_RF).all():
        return None
    every = max(1, x.shape[0] // fits.LOOKED_AT)
    number_R = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
    return rows_RF, number_R[::every]


def _is_table(x: Any) -> bool:
    """Return whether rows can be read: an array of NumPy, a sparse matrix, or a frame."""
    if len(getattr(x, "shape", ())) != 2:
        return False
    return isinstance(x, np.ndarray) or hasattr(x, "iloc") or hasattr(x, "tocsr")


def _is_refit(estimator: Any) -> bool:
    """Return whether a search fits its best candidate to all rows."""
    context = getattr(estimator, "_parent_callback_ctx", None)
    while context is not None:
        if REFIT in (context.task_name, context.source_task_name):
            return True
        context = context.parent
    return False


def _predicts(estimator: Any) -> bool:
    """Return whether a search or pipeline fits a classifier or a regressor."""
    return bool(is_classifier(estimator) or is_regressor(estimator))
