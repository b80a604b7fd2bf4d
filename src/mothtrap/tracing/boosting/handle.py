"""Base of the handles of boosting libraries, and their replaced functions.

A replaced function calls the original outside of every `try` block of mothtrap, passes on its
result or exception, and removes its own frame from the traceback.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.adapters import Job
from mothtrap.core.facts.pipelines import ShuffledApart
from mothtrap.statistics.products import correlation
from mothtrap.tracing.boosting import predicted
from mothtrap.tracing.boosting.models import Latest, Model
from mothtrap.tracing.boosting.rounds import Rounds
from mothtrap.tracing.boosting.samples import Sample, Samples, sample_of
from mothtrap.tracing.describe import row_order
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.source import frames

Function = Callable[..., Any]
Floats = npt.NDArray[np.float64]
After = Callable[..., None]
AGAINST_ROWS = 10


class OwnLoop:
    """The current round of a booster that the script updates itself.

    Args:
        owner: the booster.
        model: the booster as a `Model`.
        made: number of the round, from 0.
    """

    def __init__(self, owner: object, model: Model, made: int) -> None:
        self.owner, self._model, self._made = owner, model, made
        self._latest: dict[str, dict[str, float]] = {}

    def evaluated(self, site: str, metric: str, value: float) -> None:
        """Record a metric that the script requested."""
        self._latest.setdefault(site, {})[metric] = value

    def close(self, rounds: Rounds) -> None:
        """Report the round."""
        rounds.closed(self.owner, self._model, self._made, self._latest, "update")


class Here(threading.local):
    """State of one thread; training runs in different threads are independent.

    `in_library`: inside the library's own loop; `depth` is the number of calls in progress. `folds`
    contains data, metric and value of the latest evaluation of each fold.
    """

    in_library = False
    depth = 0
    loop: OwnLoop | None = None
    folds: Sequence[Sequence[tuple[str, str, float]]] = ()


class BoostingHandle(BaseHandle):
    """Base handle for a boosting library; derive from it and replace functions in `install`.

    Args:
        job: receives the observations.
        targets: objects whose training is watched; empty = the whole process.
        samples: rows of tables, sampled when the tables were created.
    """

    def __init__(self, job: Job, targets: Sequence[object], samples: Samples) -> None:
        self.samples, self.rounds = samples, Rounds(job, samples)
        self.here = Here()
        self.stops = self._watches_metrics = False
        super().__init__(job, targets)

    def stop(self, _: str) -> bool:
        """End the library's loop after the current round."""
        self.stops = True
        return True

    def end(self) -> None:
        """Close the last round."""
        self.end_loop()
        self.rounds.finish()

    def end_loop(self) -> None:
        """Close the current round of the script's own loop."""
        loop, self.here.loop = self.here.loop, None
        if loop is not None:
            loop.close(self.rounds)

    def stops_now(self) -> bool:
        """Return, once, whether to end the library's loop."""
        asked, self.stops = self.stops, False
        return asked

    def after(self, owner: Any, name: str, act: After) -> None:
        """Call `act(self, result, args, kwargs)` after a method of the library."""
        self.replacements.around(owner, name, None, lambda *seen: act(*seen[:-1]))

    def look_at_order(self, data: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Report labels that are in another order than the rows of a new table.

        Args:
            data: rows of the table.
            args: arguments of its constructor; the second one is the labels.
            kwargs: the same by name.
        """
        label = args[1] if len(args) > 1 else kwargs.get("label")
        if row_order.is_apart(data, label):
            place = frames.user_location()
            self.job.fact(ShuffledApart(step=self.job.now.step, location=place))

    def watch_predictions(self, estimator: type, classifier: type) -> None:
        """Remember the predictions of the library's estimators.

        Args:
            estimator: base class of the estimators.
            classifier: base class of the estimators that predict classes.
        """
        for kind in (estimator, classifier):
            if "predict" in vars(kind):
                self.after(kind, "predict", functools.partial(self._predicted, classifier))

    def _watch_metrics(self) -> None:
        """Start to observe the metrics of scikit-learn, once it is imported."""
        module = sys.modules.get(predicted.METRICS)
        if module is not None and not self._watches_metrics:
            self._watches_metrics = True
            self.replacements.around(module, predicted.CHECKS, self._metric_called, None)

    def _metric_called(self, _: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        params = args[0] if args else kwargs.get("params")
        if isinstance(params, dict) and {"y_true", "y_pred"} <= params.keys():
            step = self.job.now.step
            found = predicted.compared(params["y_true"], params["y_pred"], step=step)
            if found is not None:
                self.job.fact(found)

    def _predicted(
        self,
        classifier: type,
        model: Any,
        values: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        fit = self.rounds.latest
        if fit is not None and self.here.depth == 0:
            self._watch_metrics()
            data = args[0] if args else kwargs.get("X", kwargs.get("data"))
            predicted.remember(
                values,
                estimator=type(model).__name__,
                fit=fit.label,
                classes=isinstance(model, classifier),
                trained=len(np.atleast_1d(values)) == fit.rows and _are_rows_of(fit.own, data),
                location=frames.user_location() or "",
            )

    def look_at_gradients(self, owner: object, gradient: Any, hessian: Any, label: Any) -> None:
        """Report the result of a user's objective."""
        self.job.contain_part(
            "gradients", self.rounds.gradients, owner, _gradients(gradient, hessian, label)
        )


def _are_rows_of(sample: Sample | None, data: Any) -> bool:
    """Return whether data have the rows of a sample; True if this is unknown."""
    theirs = sample_of(data)
    return sample is None or theirs is None or np.array_equal(sample.digest_R, theirs.digest_R)


def latest_of(rows: Sequence[tuple[str, str, float]]) -> Latest:
    """Return metrics by name of the data, from rows `(data, metric, value)`."""
    found: dict[str, dict[str, float]] = {}
    for site, metric, value in rows:
        found.setdefault(site, {})[metric] = float(value)
    return found


def _gradients(gradient: Any, hessian: Any, label: Any) -> Mapping[str, Any]:
    gradient_R, hessian_R = (np.asarray(a, np.float64) for a in (gradient, hessian))
    against = None
    label_R = np.asarray(label, np.float64) if label is not None else None
    if label_R is not None and gradient_R.shape == label_R.shape and len(label_R) > AGAINST_ROWS:
        both = np.isfinite(gradient_R) & np.isfinite(label_R)
        if np.ptp(gradient_R[both]) > 0 and np.ptp(label_R[both]) > 0:
            against = correlation(gradient_R[both], label_R[both])
    return {
        "rows": len(label_R) if label_R is not None else len(gradient_R),
        "against": against,
        "hessians_below": float((hessian_R <= 0).mean()),
        "hessian_sum": float(hessian_R[np.isfinite(hessian_R)].sum()),
        "nonfinite": int((~np.isfinite(gradient_R)).sum() + (~np.isfinite(hessian_R)).sum()),
        **_newton_steps(gradient_R, hessian_R),
        **_orders(gradient_R, label_R),
    }


def _orders(gradient_N: Floats, label_R: Floats | None) -> dict[str, float]:
    """Return how well a flat array of gradients fits the labels, by the order of its elements."""
    if label_R is None or gradient_N.ndim != 1 or len(label_R) < AGAINST_ROWS:
        return {}
    classes, rest = divmod(len(gradient_N), len(label_R))
    if rest or classes < 2 or not np.isin(label_R, np.arange(classes)).all():
        return {}
    gradient_RK = gradient_N.reshape(len(label_R), classes)
    gradient_KR = gradient_N.reshape(classes, len(label_R))
    return {
        "by_row": float((gradient_RK.argmin(axis=1) == label_R).mean()),
        "by_class": float((gradient_KR.argmin(axis=0) == label_R).mean()),
    }


def _newton_steps(gradient_R: Floats, hessian_R: Floats) -> dict[str, float]:
    """Return how far, and in which direction, rows should move from the initial prediction."""
    finite = bool(np.isfinite(gradient_R).all() and np.isfinite(hessian_R).all())
    if gradient_R.ndim != 1 or len(gradient_R) < AGAINST_ROWS or not finite:
        return {}
    if (hessian_R <= 0).any():
        return {}
    step_R = -gradient_R / hessian_R
    low, middle, high = np.percentile(step_R, [16, 50, 84])
    up = float((step_R > 0).mean())
    return {
        "shift": float(middle),
        "shift_spread": float(high - low) / 2,
        "one_sided": max(up, 1 - up),
    }
