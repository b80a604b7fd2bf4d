"""One fit of an estimator: its label, and facts about its data and its result.

Shape suffixes: R = rows, F = features, K = classes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.trees import ColumnsSeen, TableSeen
from mothtrap.tracing.boosting import columns, tables
from mothtrap.tracing.boosting.models import Table
from mothtrap.tracing.boosting.samples import sample_of
from mothtrap.tracing.describe import layers as describe
from mothtrap.tracing.source import frames

LOOKED_AT: Final = 512
"""Maximum number of inspected rows of a batch or table."""
MAX_FEATURES: Final = 1024
CURVE: Final = 50
Floats = npt.NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Fit:
    """A fit in progress, or a series of partial fits of one estimator.

    Attributes:
        label: label, unique in the run.
        ids: numbers of tensors by kind.
        loss: loss of the latest batch; None before the first.
        looks: number of batches whose values were inspected.
        steps: number of steps so far.
        calls: number of calls of the method so far.
    """

    label: str
    location: str
    ids: dict[str, list[int]] = field(default_factory=dict)
    loss: float | None = None
    looks: int = 0
    steps: int = 0
    calls: int = 0
    names: tuple[str, ...] = ()


def begin(estimator: object, call: str, number: int) -> Fit:
    """Create the record of a fit that begins at the user's line."""
    place = frames.user_location() or ""
    suffix = f"#{number}" if number > 1 else ""
    name = type(estimator).__name__
    return Fit(f"{os.path.basename(place) or 'script'} {name}.{call}{suffix}", place)


def dense(values: Any, rows: int = LOOKED_AT) -> Floats | None:
    """Return evenly chosen rows of a numeric table; None for other data."""
    shape: Any = getattr(values, "shape", ())
    if len(shape) != 2 or not all(shape) or shape[1] > MAX_FEATURES:
        return None
    every = max(1, shape[0] // rows)
    if hasattr(values, "iloc"):
        values = values.iloc[::every].to_numpy()
    elif hasattr(values, "tocsr"):
        values = values.tocsr()[::every].toarray()
    else:
        values = np.asarray(values)[::every]
    if values.dtype.kind not in "fiub":
        return None
    return values.astype(np.float64)  # type: ignore[no-any-return]


def data_taken(
    values_RF: Floats, weight: npt.NDArray[Any], *, step: int, layer: str, kind: str, place: str
) -> DataTaken:
    """Return the input of the first layer.

    Args:
        values_RF: finite rows.
        weight: weight of the layer, features first or last.
        step: step in progress.
        layer: its name.
        kind: class of the estimator.
        place: line of the fit, "" = unknown.
    """
    rows, features = values_RF.shape
    nonzero = values_RF[values_RF != 0]
    median_F = np.median(values_RF, axis=0)
    rms = float(np.sqrt(np.mean(np.square(weight, dtype=np.float64)))) if weight.size else 0.0
    numbers = {
        "rows": rows,
        "features": features,
        "mean": float(values_RF.mean()),
        "std": float(values_RF.std()),
        "smallest": float(values_RF.min()),
        "largest": float(values_RF.max()),
        "zeros": float((values_RF == 0).mean()),
        "nonzero_rms": float(np.sqrt(np.mean(nonzero**2))) if nonzero.size else 0.0,
        "feature_means": tuple(values_RF.mean(axis=0).tolist()),
        "feature_stds": tuple(values_RF.std(axis=0).tolist()),
        "feature_ties": tuple((values_RF == median_F).mean(axis=0).tolist()),
    }
    return describe.data_fact(
        numbers,
        step=step,
        layer=layer,
        layer_type=kind,
        shape=(rows, features),
        gain=rms * float(np.sqrt(features)),
        location=place or None,
    )


def names(estimator: Any, x: Any) -> list[str]:
    """Return the names of the columns of a table; without a frame they are x0, x1, ..."""
    found = getattr(x, "columns", getattr(estimator, "feature_names_in_", range(0)))
    return [str(name) for name in found] or [f"x{number}" for number in range(x.shape[1])]


def table_seen(fit: Fit, estimator: Any, x: Any, y: Any, *, step: int, classes: bool) -> TableSeen:
    """Describe the labels of a training table."""
    label_R = np.asarray(y)
    weight = getattr(estimator, "class_weight", None)
    by_class = weight if isinstance(weight, dict) and classes else {}
    weight_R = (
        np.array([by_class.get(each, 1.0) for each in label_R.tolist()]) if by_class else None
    )
    if classes or label_R.dtype.kind not in "fiub":
        label_R = np.unique(label_R, return_inverse=True)[1].reshape(-1)
    number_R = label_R.astype(np.float64)
    table = Table(key=None, rows=x.shape[0], columns=x.shape[1], labels=lambda: number_R)
    if weight_R is not None:
        table = replace(table, weighted=True, weights=lambda: weight_R)
    return tables.describe(
        table,
        None,
        step=step,
        fit=fit.label,
        site="",
        classes=classes,
        scaled=weight is not None,
        place=fit.location,
    )


def columns_seen(
    fit: Fit, x: Any, y: Any, *, step: int, classes: bool, names: Sequence[str]
) -> ColumnsSeen | None:
    """Describe how the columns of a table relate to its labels; None if they cannot be read."""
    sample = sample_of(x)
    label_R = _numbers(y)
    if sample is None or label_R is None or len(label_R) <= sample.rows_R[-1]:
        return None
    return columns.seen(
        sample, names, label_R, step=step, fit=fit.label, categorical=(), classes=classes
    )


def fitted(
    fit: Fit,
    estimator: Any,
    call: str,
    x: Any,
    y: Any,
    output: Floats | None,
    *,
    step: int,
    losses: Sequence[float] = (),
) -> EstimatorFitted:
    """Return the result of a fit.

    Args:
        fit: fit that has ended.
        estimator: estimator that was fitted.
        call: the method.
        x: its rows.
        y: labels.
        output: scores of some of the rows, by class for a classifier; None = unknown.
        step: step in progress.
        losses: losses of the passes, if the estimator has no `loss_curve_`.
    """
    more: dict[str, Any] = {}
    rows, features = x.shape[:2]
    classes = getattr(estimator, "classes_", None)
    if classes is not None and np.asarray(y).ndim == 1:
        known = {value: number for number, value in enumerate(np.asarray(classes).tolist())}
        found = [known[value] for value in np.asarray(y).tolist() if value in known]
        more["label_counts"] = tuple(np.bincount(found, minlength=len(known)).tolist())
        if output is not None and output.ndim == 2:
            two = output.shape[1] == 1
            chosen_R = (output[:, 0] > 0).astype(int) if two else output.argmax(axis=1)
            more["predicted_counts"] = tuple(np.bincount(chosen_R, minlength=len(known)).tolist())
    elif classes is None and np.asarray(y).dtype.kind in "fiu":
        more["label_std"] = float(np.asarray(y, np.float64).std())
        if output is not None and np.isfinite(output).all():
            more["predicted_std"] = float(output.std(axis=0).max())
    curve = [float(loss) for loss in getattr(estimator, "loss_curve_", losses)][-CURVE:]
    more["task"] = "regression" if classes is None else "classes"
    most = int(getattr(estimator, "max_iter", 0) or 0)
    passes = int(np.max(getattr(estimator, "n_iter_", 0)))
    unbounded = getattr(estimator, "tol", 0.0) is None  # this number of passes was requested
    return EstimatorFitted(
        step=step,
        fit=fit.label,
        estimator=type(estimator).__name__,
        call=call,
        rows=int(rows),
        columns=int(features),
        iterations=passes,
        max_iterations=most,
        exhausted=call == "fit" and 0 < most <= passes and not unbounded,
        judged=0 if output is None else len(output),
        loss_curve=tuple(curve),
        parameters=parameters(estimator),
        location=fit.location or None,
        **more,
    )


def parameters(estimator: Any) -> dict[str, float]:
    """Return the finite numbers among the parameters of an estimator."""
    given = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    numbers = {name: value for name, value in given.items() if type(value) in (int, float)}
    numbers |= {n: float(v) for n, v in given.items() if isinstance(v, np.integer | np.floating)}
    return {name: float(value) for name, value in numbers.items() if np.isfinite(value)}


def _numbers(y: Any) -> Floats | None:
    label_R = np.asarray(y)
    if label_R.ndim != 1:
        return None
    if label_R.dtype.kind not in "fiub":
        label_R = np.unique(label_R, return_inverse=True)[1]
    return label_R.astype(np.float64)
