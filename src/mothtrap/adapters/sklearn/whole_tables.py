"""Facts about the training tables of fits that are observed as a whole, and about predictions.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import structs

from mothtrap.adapters.sklearn import fits
from mothtrap.adapters.sklearn.boosted_fits import is_one_of
from mothtrap.adapters.sklearn.fits import Fit
from mothtrap.core.fact import Fact
from mothtrap.core.facts.estimators import EstimatorFitted, PredictionsCompared
from mothtrap.core.facts.layers import DISTANCES, VARIANCES
from mothtrap.core.facts.trees import TableSeen
from mothtrap.tracing.boosting import columns, tables
from mothtrap.tracing.boosting.samples import Sample

BY_DISTANCE: Final = frozenset({"SVC", "SVR", "NuSVC", "NuSVR", "NeighborsBase", "_BaseKMeans"})
"""Estimators that compare rows by their distance, so columns of a large scale dominate."""
BY_VARIANCE: Final = frozenset({"PCA", "IncrementalPCA", "TruncatedSVD"})
"""Transformers that keep the directions with the largest variance."""
MAX_KEPT: Final = 0.5
"""Share of the columns; a transformer that keeps more directions loses little. Chosen by hand."""
BY_ITERATIONS: Final = ("sklearn.linear_model", "sklearn.svm")
"""Modules in which `max_iter` limits the passes of a solver; elsewhere it is a number of trees."""


def of_fit(
    fit: Fit,
    estimator: Any,
    x: Any,
    label_R: npt.NDArray[Any],
    sample: Sample | None,
    names: Sequence[str],
    classes: list[Any] | None,
) -> list[Fact]:
    """Describe the training table of a fit that begins.

    Args:
        fit: record of the fit.
        estimator: estimator that is fitted.
        x: training rows.
        label_R: labels of the rows.
        sample: sample of the rows.
        names: names of the columns.
        classes: the classes in ascending order; None for a regression.
    """
    about = {"step": 0, "fit": fit.label}
    numbers_R = label_R
    if classes is not None or label_R.dtype.kind not in "fiub":
        numbers_R = np.unique(label_R, return_inverse=True)[1].reshape(-1)
    labels_R = numbers_R.astype(np.float64)
    found: list[Fact] = [
        fits.table_seen(fit, estimator, x, label_R, step=0, classes=classes is not None),
        EstimatorFitted(
            estimator=type(estimator).__name__,
            call="fit",
            rows=x.shape[0],
            columns=x.shape[1],
            label_counts=tuple(np.bincount(numbers_R).tolist()) if classes is not None else (),
            label_std=None if classes is not None else float(labels_R.std()),
            task="classes" if classes is not None else "regression",
            parameters=fits.parameters(estimator),
            location=fit.location or None,
            **about,  # type: ignore[arg-type]
        ),
    ]
    if sample is not None and len(labels_R) > sample.rows_R[-1]:
        found.append(
            columns.seen(
                sample,
                names,
                labels_R,
                categorical=(),
                classes=classes is not None,
                **about,  # type: ignore[arg-type]
            )
        )
    if is_one_of(estimator, BY_DISTANCE):
        found += _scales(estimator, x, DISTANCES, step=0, place=fit.location)
    return found


def of_transform(estimator: Any, x: Any, *, step: int, place: str) -> list[Fact]:
    """Describe the scales of the columns to which a transformer or a clustering is fitted.

    Args:
        estimator: the transformer, before it is fitted.
        x: its rows.
        step: step in progress.
        place: line of the fit.
    """
    if is_one_of(estimator, BY_DISTANCE):
        return _scales(estimator, x, DISTANCES, step=step, place=place)
    kept = getattr(estimator, "n_components", None)
    if not is_one_of(estimator, BY_VARIANCE) or not isinstance(kept, int | float):
        return []
    if isinstance(kept, int) and kept > MAX_KEPT * x.shape[1]:
        return []
    return _scales(estimator, x, VARIANCES, step=step, place=place)


def _scales(estimator: Any, x: Any, kind: str, *, step: int, place: str) -> list[Fact]:
    rows = fits.dense(x)
    if rows is None or not np.isfinite(rows).all():
        return []
    layer = type(estimator).__name__
    return [
        fits.data_taken(part, np.empty(0), step=step, layer=layer, kind=kind, place=place)
        for part in (rows[::2], rows[1::2])
        if len(part)
    ]


def ended(fact: EstimatorFitted, estimator: Any) -> EstimatorFitted:
    """Add the passes of a solver to the fact about a fit."""
    most = getattr(estimator, "max_iter", None)
    passes = getattr(estimator, "n_iter_", None)
    if not type(estimator).__module__.startswith(BY_ITERATIONS) or not most or passes is None:
        return fact
    made = int(np.max(passes))
    return structs.replace(
        fact, iterations=made, max_iterations=max(0, int(most)), exhausted=0 < most <= made
    )


def of_rows(
    name: str,
    label: str,
    ours: Sample | None,
    theirs: Sample | None,
    names: Sequence[str],
    *,
    step: int,
    site: str,
    place: str,
) -> list[Fact]:
    """Compare the rows that an estimator predicts with its training rows.

    Args:
        name: class of the estimator.
        label: label of its fit.
        ours: sample of the training rows.
        theirs: sample of the predicted rows.
        names: names of the columns.
        step: step in progress.
        site: label of the prediction.
        place: line of the prediction.
    """
    found: list[Fact] = []
    shared = tables.shared(ours, theirs, step=step, site=site, place=place)
    if shared is not None:
        found.append(structs.replace(shared, module=name, argument="X"))
    if ours is not None and theirs is not None and ours.kept_RC.shape[1] == len(names):
        differ = columns.differences(ours, theirs, names, step=step, fit=label, site=site)
        if differ is not None:
            found.append(differ)
    return found


def are_equal(ours: Sample | None, theirs: Sample | None, rows: int, others: int) -> bool:
    """Return whether predicted rows are the training rows, in the same order."""
    if ours is None or theirs is None or rows != others:
        return False
    return np.array_equal(ours.digest_R, theirs.digest_R)


def of_labels(found: PredictionsCompared, columns: int) -> TableSeen:
    """Describe the labels of an evaluation."""
    return TableSeen(
        step=found.step,
        fit=found.fit,
        site=found.site,
        rows=found.rows,
        columns=columns,
        label_counts=found.label_counts,
        location=found.location,
    )
