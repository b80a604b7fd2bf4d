"""Observe fits whose passes cannot be observed one by one, and the predictions of all estimators.

`fit` of every estimator first validates its parameters, in a wrapper that holds its arguments.
Every method that gets rows validates their columns, and every metric its arguments. These three
private functions are replaced, because each estimator has its own `fit` and `predict`.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Protocol

import numpy as np
from msgspec import structs
from sklearn import base
from sklearn.pipeline import Pipeline
from sklearn.utils import _param_validation, validation

from mothtrap.adapters.sklearn import boosted_fits, fits, whole_tables
from mothtrap.adapters.sklearn.fits import Fit
from mothtrap.adapters.sklearn.transforms import Transforms
from mothtrap.core.adapters import Job
from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.pipelines import ShuffledApart
from mothtrap.tracing.boosting.samples import Sample, sample_of
from mothtrap.tracing.describe import predictions, row_order
from mothtrap.tracing.replacements import Function, Replacements, drop_own_frame
from mothtrap.tracing.source import frames

PREDICTS: Final = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score")
FOLDS: Final = "_fit_and_score"
"""Function of the library that fits and scores one fold."""
CROSS_VALIDATES: Final = "cross_validate"
"""Function of the library that makes the folds, also for `cross_val_score`."""
MAX_FITS: Final = 16
"""Maximum number of fits of one line that are described; searches and loops run thousands."""
MAX_EVALUATIONS: Final = 64
CACHES: Final = "joblib."
"""Start of the module names of the library by which pipelines call transformers."""
DEPTH: Final = 24
"""Maximum number of stack frames that are searched for the user's call."""


class WholeHandle(Protocol):
    """Methods of a handle that this module uses; see `SklearnHandle`."""

    job: Job
    labels: weakref.WeakKeyDictionary[Any, str]

    def watches(self, target: object) -> bool:
        """Return whether an estimator is observed."""

    def begin(self, estimator: Any, call: str) -> Fit:
        """Return the record of a fit that begins."""

    def close(self, fit: Fit) -> None:
        """Close a step of a fit."""


@dataclass(slots=True, eq=False, kw_only=True)
class Fitted:
    """An estimator that the script has fitted.

    Attributes:
        classes: its classes in ascending order; None for a regression.
        order: position of the fit in the sequence of all fits.
        fit: record of the fit; None if another part of this adapter reports it.
        about: facts about the training table, which are reported once the fit has succeeded.
        own: sample of the training table.
    """

    name: str
    rows: int
    names: list[str]
    classes: list[Any] | None
    location: str
    order: int
    fit: Fit | None = None
    about: list[Fact] = field(default_factory=list)
    own: Sample | None = None


@dataclass(slots=True, eq=False)
class Predicted:
    """The latest rows that a script passed to a fitted estimator."""

    of: Fitted
    rows: int
    site: str
    location: str
    trained: bool
    label: str


class WholeFits:
    """Reports fits and predictions to a handle.

    Args:
        handle: handle that observes the process.
        observed: estimators whose fits other parts of the adapter report.
    """

    def __init__(self, handle: WholeHandle, observed: tuple[type, ...]) -> None:
        self._handle, self._observed = handle, observed
        self._fitted: weakref.WeakKeyDictionary[Any, Fitted] = weakref.WeakKeyDictionary()
        self._open: tuple[weakref.ref[Any], Fitted] | None = None
        self._made: Counter[str] = Counter()
        self._seen: set[tuple[int, str, int]] = set()
        self._latest: Predicted | None = None
        self._transforms = Transforms()
        self._scaled: set[tuple[str, str]] = set()
        self._clock = 0
        self._has_split = False
        self._trained: dict[int, list[Fact]] = {}
        self._held_out: set[int] = set()

    def install(self, replacements: Replacements) -> None:
        """Replace the functions of the library."""
        replacements.replace(base.BaseEstimator, "_validate_params", self._around_parameters)
        if "_check_feature_names" in vars(validation):  # before 1.6, a method of estimators
            replacements.replace(validation, "_check_feature_names", self._around_names)
        replacements.replace(
            _param_validation, "validate_parameter_constraints", self._around_constraints
        )

    def _around_parameters(self, original: Function) -> Function:
        def _validate_params(estimator: Any) -> Any:
            self._handle.job.contain(self._fit_begins, estimator, sys._getframe(1))
            try:
                return original(estimator)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return _validate_params

    def _around_names(self, original: Function) -> Function:
        def _check_feature_names(estimator: Any, x: Any, *, reset: bool) -> Any:
            act = self._transforms_rows if reset else self._gets_rows
            self._handle.job.contain(act, estimator, x, sys._getframe(1))
            try:
                return original(estimator, x, reset=reset)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return _check_feature_names

    def _around_constraints(self, original: Function) -> Function:
        def validate_parameter_constraints(
            parameter_constraints: Any, params: Any, caller_name: str
        ) -> Any:
            self._has_split |= caller_name == "train_test_split"
            if isinstance(params, dict) and {"y_true", "y_pred"} <= params.keys():
                self._handle.job.contain(self._compares, params["y_true"], params["y_pred"])
            try:
                return original(parameter_constraints, params, caller_name=caller_name)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return validate_parameter_constraints

    def _fit_begins(self, estimator: Any, wrapper: FrameType) -> None:
        """Describe the table of a fit that begins."""
        code = wrapper.f_code
        if code.co_name != "wrapper" or "fit_method" not in code.co_freevars:
            return
        self._clock += 1
        given = wrapper.f_locals.get("args", ()), wrapper.f_locals.get("kwargs", {})
        x, y = ({**dict(zip(("X", "y"), given[0], strict=False)), **given[1]}.get(n) for n in "Xy")
        if not _is_asked_for(estimator, wrapper) or len(getattr(x, "shape", ())) != 2:
            return
        place = frames.user_location() or ""
        if base.is_classifier(estimator) or base.is_regressor(estimator):
            self.settle()
            if wrapper.f_locals["fit_method"].__name__ == "fit" and y is not None:
                self._describe_fit(estimator, x, y, place)

    def _describe_fit(self, estimator: Any, x: Any, y: Any, place: str) -> None:
        if not self._handle.watches(estimator):
            return
        self._made[place] += 1
        if self._made[place] > MAX_FITS:
            return
        label_R = np.asarray(y)
        classes = np.unique(label_R).tolist() if base.is_classifier(estimator) else None
        fitted = Fitted(
            name=type(estimator).__name__,
            rows=x.shape[0],
            names=fits.names(estimator, x) if hasattr(x, "columns") else _numbered(x),
            classes=classes,
            location=place,
            order=self._clock,
            own=sample_of(x),
        )
        self._fitted[estimator] = fitted
        if row_order.is_apart(x, y):
            self._handle.job.fact(
                ShuffledApart(step=self._handle.job.now.step, location=place or None)
            )
        if not isinstance(estimator, self._observed) and label_R.ndim == 1:
            fitted.fit = self._handle.begin(estimator, "fit")
            fitted.about = whole_tables.of_fit(
                fitted.fit, estimator, x, label_R, fitted.own, fitted.names, classes
            )
            self._open = weakref.ref(estimator), fitted

    def settle(self) -> None:
        """Report the latest fit, if it has succeeded."""
        found, self._open = self._open, None
        if found is None:
            return
        estimator, fitted = found[0](), found[1]
        if estimator is None or fitted.fit is None or not _is_fitted(estimator):
            return
        job = self._handle.job
        for fact in fitted.about:
            if isinstance(fact, EstimatorFitted):
                fact = whole_tables.ended(fact, estimator)
            job.fact(structs.replace(fact, step=job.now.step))
        fitted.about = []
        if not boosted_fits.report(job, fitted.fit, estimator, fitted.rows):
            self._handle.close(fitted.fit)

    def _transforms_rows(self, estimator: Any, x: Any, frame: FrameType) -> None:
        """Record the rows to which a transformer is fitted."""
        predicts = base.is_classifier(estimator) or base.is_regressor(estimator)
        if predicts or not hasattr(estimator, "transform") or len(getattr(x, "shape", ())) != 2:
            return
        place = frames.user_location() or ""
        if _is_asked_for(estimator, frame):
            self._clock += 1
            self._transforms.add(self._clock, estimator, tuple(x.shape), place)
        elif not _is_in_pipeline(estimator, frame):
            return
        key = type(estimator).__name__, place
        if key not in self._scaled and len(self._scaled) < MAX_FITS:
            self._scaled.add(key)
            job = self._handle.job
            for fact in whole_tables.of_transform(estimator, x, step=job.now.step, place=place):
                job.fact(fact)

    def _gets_rows(self, _: Any, __: Any, frame: FrameType) -> None:
        """Compare the rows that a script passes to a fitted estimator with its training rows."""
        call = self._call_of(frame)
        if call is None:
            return
        self.settle()
        estimator = call.f_locals["self"]
        fitted, label = self._of(estimator), self._handle.labels.get(estimator)
        x: Any = call.f_locals.get("X")
        if label is None or len(getattr(x, "shape", ())) != 2:
            return
        place = frames.user_location() or ""
        key = fitted.order, place, x.shape[0]
        if key in self._seen or len(self._seen) >= MAX_EVALUATIONS:
            if self._latest is not None and self._latest.of is not fitted:
                self._latest = None
            return
        self._seen.add(key)
        site = f"{call.f_code.co_name} at {place.rpartition('/')[2]}"
        theirs = sample_of(x)
        trained = whole_tables.are_equal(fitted.own, theirs, fitted.rows, x.shape[0])
        self._latest = Predicted(fitted, x.shape[0], site, place, trained, label)
        about: dict[str, Any] = {"step": self._handle.job.now.step, "site": site, "place": place}
        found = whole_tables.of_rows(fitted.name, label, fitted.own, theirs, fitted.names, **about)
        if trained:
            self._trained.setdefault(fitted.order, []).extend(found)
            return
        self._held_out.add(fitted.order)
        about = {"step": self._handle.job.now.step, "split": self._has_split}
        refitted = self._transforms.against(
            fitted.rows, x.shape[0], x.shape[1], fitted.order, **about
        )
        for fact in (*found, *refitted):
            self._handle.job.fact(fact)

    def _call_of(self, frame: FrameType | None) -> FrameType | None:
        """Return the outermost call of a fitted estimator that predicts rows for the user."""
        found = None
        for _ in range(DEPTH):
            if frame is None or not _is_of_sklearn(frame):
                break
            if frame.f_code.co_name in PREDICTS:
                one = frame.f_locals.get("self")
                known = isinstance(one, base.BaseEstimator) and (
                    one in self._fitted or one in self._handle.labels
                )
                if known:
                    found = frame
            elif frame.f_code.co_name in ("fit", "partial_fit", "fit_transform"):
                return None
            frame = frame.f_back
        return found

    def _of(self, estimator: Any) -> Fitted:
        """Return the record of a fitted estimator; its rows are unknown after `partial_fit`."""
        if estimator not in self._fitted:
            classes = getattr(estimator, "classes_", None)
            self._clock += 1
            self._fitted[estimator] = Fitted(
                name=type(estimator).__name__,
                rows=0,
                names=[],
                classes=None if classes is None else np.asarray(classes).tolist(),
                location="",
                order=self._clock,
            )
        return self._fitted[estimator]

    def _compares(self, y_true: Any, y_pred: Any) -> None:
        """Compare the latest predictions with labels."""
        latest = self._latest
        if latest is None or len(np.shape(y_true)) != 1 or len(y_true) != latest.rows:
            return
        self._latest = None
        label_R, predicted_R = np.asarray(y_true), np.asarray(y_pred)
        job, of = self._handle.job, latest.of
        found = predictions.compared(
            label_R,
            predicted_R,
            of.classes,
            step=job.now.step,
            fit=latest.label,
            estimator=of.name,
            site=latest.site,
            trained=latest.trained,
            location=latest.location or None,
        )
        if found is not None:
            job.fact(found)
            if of.classes is not None and not latest.trained:
                job.fact(whole_tables.of_labels(found, len(of.names)))

    def end(self) -> None:
        """Report predictions for training rows, if the fit predicts no other rows."""
        self.settle()
        for order, found in self._trained.items():
            for fact in found if order not in self._held_out else ():
                if self._has_split and isinstance(fact, RowsShared):
                    fact = structs.replace(fact, own_dataset=True)  # rows were held out
                self._handle.job.fact(fact)


def _numbered(x: Any) -> list[str]:
    return [f"x{number}" for number in range(x.shape[1])]


def _is_of_sklearn(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("sklearn.")


def _is_asked_for(estimator: Any, wrapper: FrameType) -> bool:
    """Return whether the script fits an estimator, directly or with a cross-validation."""
    frame: FrameType | None = wrapper
    for _ in range(DEPTH):
        if frame is None or not _is_of_sklearn(frame):
            break
        if frame.f_code.co_name == FOLDS:
            return _is_cross_validated(frame)
        one = frame.f_locals.get("self", estimator)
        if one is not estimator:
            return False
        frame = frame.f_back
    return frame is not None and frames.is_users(frame)


def _is_in_pipeline(estimator: Any, frame: FrameType | None) -> bool:
    """Return whether the script fits a pipeline that contains a transformer."""
    for _ in range(DEPTH):
        if frame is None or not _is_of_sklearn(frame):
            break
        one = frame.f_locals.get("self", estimator)
        if one is not estimator and not isinstance(one, Pipeline):
            return False
        frame = frame.f_back
        while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(CACHES):
            frame = frame.f_back
    return frame is not None and frames.is_users(frame)


def _is_cross_validated(frame: FrameType | None) -> bool:
    """Return whether a fold belongs to a cross-validation of the script, not to a search."""
    for _ in range(2 * DEPTH):
        if frame is None or frame.f_code.co_name == "fit":
            break
        if frame.f_code.co_name == CROSS_VALIDATES:
            return True
        frame = frame.f_back
    return False


def _is_fitted(estimator: Any) -> bool:
    return any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))
