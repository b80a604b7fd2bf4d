"""Facts about losses, from the results of the shadow of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.functions import Layout, series_of
from mothtrap.adapters.jax.layers import LayerFacts
from mothtrap.adapters.jax.patterns import NO_LABEL
from mothtrap.adapters.jax.shadow import LAYERS, Looks, Shadow, Softmax
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import TargetOrder
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.tracing.describe import loss_numbers, target_samples
from mothtrap.tracing.describe.differences import difference
from mothtrap.tracing.describe.loss_numbers import Called
from mothtrap.tracing.describe.target_order import TargetsInOrder

Array = npt.NDArray[Any]

ONE_HOT: Final = "softmax_cross_entropy"
"""Name of the loss of one-hot labels."""
OF_LOSSES: Final = (LossCall, TargetOrder)


class LossFacts:
    """Reports the losses that a shadow observes.

    Args:
        job: receives the facts.
        layers: reports the output from which a loss is computed.
    """

    def __init__(self, job: Job, layers: LayerFacts) -> None:
        self._job, self._layers = job, layers
        self._orders: dict[str, TargetsInOrder] = {}

    def describe(
        self, shadow: Shadow, looks: Looks, args: Any, kwargs: Any, layout: Layout
    ) -> None:
        """Report the losses of a step."""
        if shadow.softmaxes or shadow.errors:
            self._job.stood_ready(OF_LOSSES)
        self._differences(shadow, looks, layout)
        if not shadow.softmaxes and not shadow.errors:
            self._of_scores(shadow, looks, layout)
        loss = float(np.asarray(looks.losses[0]))
        labels = [_host(leaf) for leaf in jax.tree_util.tree_leaves((args, kwargs))]
        integers = [one for one in labels if one is not None and one.ndim]
        for softmax, logits in zip(shadow.softmaxes, looks.logits, strict=True):
            series = series_of(layout) if len(looks.logits) == 1 else None
            values = np.asarray(logits, dtype=np.float32)
            if softmax.operation != "cross_entropy":
                self._job.fact(
                    LossCall(
                        step=self._job.now.step,
                        operation=softmax.operation,
                        series=series,
                        chain=softmax.chain,
                        prediction_shape=tuple(values.shape),
                        location=softmax.location,
                        alone=series is not None,
                    )
                )
                continue
            self._loss(shadow, softmax, values, integers, loss, looks, series, layout)

    def _of_scores(self, shadow: Shadow, looks: Looks, layout: Layout) -> None:
        """Report a loss that is the negative mean of scores or probabilities at the labels."""
        terms = shadow.found.terms
        if terms is None or terms.scores is None:
            return
        kind, shape = terms.scores
        chosen = zip(shadow.found.chosen_from, looks.chosen, strict=True)
        labels = [np.asarray(one) for of, one in chosen if of == shape]
        if len(labels) != 1 or not ((labels[0] >= 0) & (labels[0] < shape[-1])).all():
            return
        self._job.stood_ready(OF_LOSSES)
        self._job.fact(
            LossCall(
                step=self._job.now.step,
                operation="nll",
                series=series_of(layout),
                chain=(kind,),
                prediction_shape=shape,
                target_shape=tuple(labels[0].shape),
                classes=shape[-1],
                location=layout.location,
                targets=TargetSample(dtype="int32", count=labels[0].size, normalized=False),
                alone=True,
            )
        )

    def _differences(self, shadow: Shadow, looks: Looks, layout: Layout) -> None:
        alone = len(shadow.errors) == 1 and not shadow.softmaxes
        inputs = [np.asarray(one) for one in looks.data]
        for error, target in zip(shadow.errors, looks.targets, strict=True):
            self._job.fact(
                difference(
                    error.prediction_shape,
                    error.target_shape,
                    error.result_shape,
                    step=self._job.now.step,
                    series=series_of(layout) if alone else None,
                    location=error.location,
                    targets=target_samples.leaks(np.asarray(target), inputs),
                )
            )
        if alone and shadow.activations and shadow.activations[-1].operation in LAYERS.values():
            output = np.asarray(looks.activations[-1])
            if output.shape == shadow.errors[0].prediction_shape:
                self._layers.spread(output, "the output", shadow.errors[0].location, looks)

    def _loss(
        self,
        shadow: Shadow,
        softmax: Softmax,
        logits: Array,
        integers: Sequence[Array],
        loss: float,
        looks: Looks,
        series: str | None,
        layout: Layout,
    ) -> None:
        step, classes = self._job.now.step, logits.shape[softmax.axis]
        rows_RK = np.moveaxis(logits, softmax.axis, -1)
        chosen = zip(shadow.found.chosen_from, looks.chosen, strict=True)
        own = [np.asarray(one) for shape, one in chosen if shape == logits.shape]
        fitting = [one for one in (*own, *integers) if one.shape == rows_RK.shape[:-1]]
        in_range = (one for one in fitting if ((one >= 0) & (one < classes)).all())
        labels = next(in_range, next(iter(fitting), None))
        counted = (np.asarray(one) for one in looks.counted if one.shape == rows_RK.shape[:-1])
        probability_RK = loss_numbers.softmax(rows_RK)
        called = Called(
            operation="cross_entropy",
            chain=softmax.chain,
            classes=classes,
            target=labels if labels is not None else np.zeros(0, np.int64),
            prediction=probability_RK,
            counted=next(counted, None),
        )
        inputs = [np.asarray(one) for one in (*looks.tokens, *looks.data)]
        known = labels is not None and bool(((labels >= 0) & (labels < classes)).all())
        targets = target_samples.sample(called, inputs, columns=True) if known else None
        function = None
        if logits.ndim == 2 and any(map(_lacks_labels, own)):
            sums, count = (0.0, 1.0), len(logits)
            function = ONE_HOT
            targets = TargetSample(dtype="float32", count=count, row_sums=sums)
        is_next = targets is not None and targets.input_offsets == (1,)
        ahead, line = _looks_ahead(shadow, looks, rows_RK.shape[-2]) if is_next else (None, None)
        self._job.fact(
            LossCall(
                step=step,
                operation="cross_entropy",
                series=series,
                chain=softmax.chain,
                prediction_shape=tuple(logits.shape),
                target_shape=_shape_of(labels) if function is None else logits.shape,
                function=function,
                classes=classes,
                location=softmax.location,
                rows_are_probabilities=loss_numbers.rows_are_probabilities(rows_RK),
                label_counts=loss_numbers.label_counts(called)
                if known and not layout.repeats
                else None,
                prediction_spread=loss_numbers.prediction_spread(called),
                reduction="mean" if known and _is_mean(probability_RK, labels, loss) else None,
                softmax_sizes=(classes,),
                targets=targets,
                looks_ahead=ahead,
                made_at=line,
                alone=len(looks.logits) == 1,
            )
        )
        self._layers.spread(rows_RK, "the logits", softmax.location, looks)
        if known and not layout.repeats:  # each look is at the first batch of a loop
            self._order(series or f"{softmax.location}", softmax.location, step, called)

    def _order(self, site: str, place: str | None, step: int, called: Called) -> None:
        order = self._orders.setdefault(site, TargetsInOrder(site, place))
        if order.is_due(step):
            self._job.fact(order.fact(step))
        target_samples.add_to_order(order, step, called)


def _looks_ahead(shadow: Shadow, looks: Looks, length: int) -> tuple[str | None, str | None]:
    """Return whether an attention gives weight to later positions, and its line."""
    sights = [np.asarray(one, dtype=np.float32) for one in looks.sights]
    found = [
        (line, bool((np.triu(sight_QK, 1) > 0).any()))
        for line, sight_QK in zip(shadow.found.sights, sights, strict=True)
        if len(sight_QK) == length
    ]
    if not found:
        return None, None
    return next((("attention", line) for line, ahead in found if ahead), ("causal", None))


def _lacks_labels(labels: Array) -> bool:
    """Return whether some rows are 0 for each class, and all others are one-hot."""
    empty = labels == NO_LABEL
    return bool(empty.any() and not empty.all() and (labels[~empty] >= 0).all())


def _shape_of(labels: Array | None) -> tuple[int, ...] | None:
    return tuple(labels.shape) if labels is not None else None


def _host(leaf: Any) -> Array | None:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jax.numpy.issubdtype(dtype, np.integer):
        return None
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return None
    return np.asarray(leaf)


def _is_mean(probability_RK: Array, labels: Any, loss: float) -> bool:
    """Return whether a loss is the mean cross-entropy of its rows."""
    chosen = np.take_along_axis(probability_RK, labels[..., None].astype(np.int64), axis=-1)
    mean = float(-np.log(np.maximum(chosen, 1e-30)).mean())
    return math.isclose(mean, loss, rel_tol=1e-2, abs_tol=1e-4)
