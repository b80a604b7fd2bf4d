"""Facts about losses and layers, from what the shadow of a step returned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.functions import Layout, series_of
from mothtrap.adapters.jax.shadow import LAYERS, SATURATING, Activation, Looks, Shadow, Softmax
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import TargetOrder
from mothtrap.core.facts.layers import (
    DataTaken,
    ForwardScales,
    LayerScale,
    OutputSpread,
    UnitInputs,
)
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.tracing import directions, layer_looks, loss_looks
from mothtrap.tracing.loss_looks import Called, TargetsInOrder

Array = npt.NDArray[Any]

OF_SHADOWS: Final = (DataTaken, ForwardScales, OutputSpread, UnitInputs)
OF_LOSSES: Final = (LossCall, TargetOrder)
OF_WIRING: Final = (UnreachedModule,)
OF_UPDATES: Final = (UpdateDirection,)
UNREACHED_AT: Final = (20, 40, 64)
"""Looks after which weights without a way to the loss are reported."""
SMALL: Final = 1e-3
"""By how much rows of probabilities may miss a sum of 1."""


class Describer:
    """Reports what is seen in a shadow.

    Args:
        job: takes the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._orders: dict[str, TargetsInOrder] = {}
        self._steps = 0

    def describe(
        self, shadow: Shadow, looks: Looks, args: Any, kwargs: Any, layout: Layout
    ) -> None:
        """Report the layers and losses of a step."""
        self._layers(shadow, looks)
        self._unreached(shadow, looks, layout)
        if shadow.softmaxes or shadow.errors:
            self._job.stood_ready(OF_LOSSES)
        self._differences(shadow, looks, layout)
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
            self._loss(softmax, values, integers, loss, looks, series)

    def _differences(self, shadow: Shadow, looks: Looks, layout: Layout) -> None:
        alone = len(shadow.errors) == 1 and not shadow.softmaxes
        for error in shadow.errors:
            self._job.fact(
                LossCall(
                    step=self._job.now.step,
                    operation="elementwise",
                    series=series_of(layout) if alone else None,
                    prediction_shape=error.prediction_shape,
                    target_shape=error.target_shape,
                    result_shape=error.result_shape,
                    location=error.location,
                )
            )
        if alone and shadow.activations and shadow.activations[-1].operation in LAYERS.values():
            output = _f(looks.activations[-1])
            if output.shape == shadow.errors[0].prediction_shape:
                self._spread(output, "the output", shadow.errors[0].location, looks)

    def direction(
        self, layout: Layout, gradients: Sequence[Any], before: Sequence[Any], after: Sequence[Any]
    ) -> None:
        """Report where a step moved the weights, as against their gradients."""
        self._job.stood_ready(OF_UPDATES)
        every = zip(layout.weights, gradients, before, after, strict=True)
        found = directions.cosines(one for one in every if not any(map(_is_elsewhere, one[1:])))
        if found:
            self._job.fact(
                UpdateDirection(
                    step=self._job.now.step,
                    optimizer=layout.function,
                    layers=tuple(found),
                    cosines=tuple(found.values()),
                )
            )

    def _layers(self, shadow: Shadow, looks: Looks) -> None:
        step, scales, data = self._job.now.step, iter(looks.scales), iter(looks.data)
        self._job.stood_ready(OF_SHADOWS)
        layers = []
        last = len(shadow.activations) - 1
        every = zip(shadow.activations, looks.activations, strict=True)
        for index, (info, array) in enumerate(every):
            if info.operation in SATURATING.values():
                self._units(info, np.asarray(array), last=index == last)
            if info.operation not in LAYERS.values():
                continue
            given, weights = (float(np.asarray(one)) for one in next(scales))
            gain = layer_looks.gain(weights, info.fan_in)
            out, variance = layer_looks.sizes(np.asarray(array, dtype=np.float32))
            layers.append(
                LayerScale(
                    layer=info.name,
                    layer_type=info.operation,
                    input_rms=math.sqrt(given) if given >= 0 else math.nan,
                    output_rms=math.sqrt(out) if out >= 0 else math.nan,
                    variance=variance,
                    gain=gain,
                    fan_in=info.fan_in,
                    last=index == last,
                    location=info.location,
                )
            )
            if info.is_first:
                self._data(info.name, info.operation, next(data), gain, info.location)
        if layers and all(math.isfinite(one.output_rms) for one in layers):
            self._job.fact(ForwardScales(step=step, root="loss", layers=tuple(layers)))

    def _units(self, info: Activation, values: Array, *, last: bool) -> None:
        seen = layer_looks.unit_inputs(values, info.operation)
        if seen is not None:
            self._job.fact(
                UnitInputs(
                    step=self._job.now.step,
                    module=info.name,
                    module_type=info.operation,
                    function=info.operation,
                    units=seen[0],
                    edges=layer_looks.EDGES,
                    counts=seen[1],
                    last=last,
                    location=info.location,
                )
            )

    def _unreached(self, shadow: Shadow, looks: Looks, layout: Layout) -> None:
        """Report weights that the loss does not depend on: their gradients are 0 by wiring."""
        self._job.stood_ready(OF_WIRING)
        self._steps += 1
        if not shadow.zeros or self._steps not in UNREACHED_AT:
            return
        sizes = {n: int(np.size(g)) for n, g in zip(shadow.names, looks.gradients, strict=True)}
        modules: dict[str, list[str]] = {}
        for name in shadow.zeros:
            modules.setdefault(name.rpartition(".")[0] or name, []).append(name)
        for module, names in modules.items():
            elements = sum(sizes[name] for name in names)
            self._job.fact(
                UnreachedModule(
                    step=self._job.now.step,
                    module=module,
                    parameters=tuple(names),
                    elements=elements,
                    share=elements / max(1, sum(sizes.values())),
                    own_steps=self._steps,
                    runs=self._steps,
                    detached_before=shadow.cut[1] if shadow.cut else None,
                    location=shadow.cut[0] if shadow.cut else layout.location,
                    since=0,
                )
            )

    def _data(self, name: str, kind: str, given: Any, gain: float, place: str | None) -> None:
        values = np.asarray(given)
        fields = layer_looks.data_taken(values, grid=kind == "conv")
        if fields is not None:
            self._job.fact(
                DataTaken(
                    step=self._job.now.step,
                    layer=name,
                    layer_type=kind,
                    shape=tuple(values.shape),
                    gain=gain,
                    location=place,
                    **fields,
                )
            )

    def _loss(
        self,
        softmax: Softmax,
        logits: Array,
        integers: Sequence[Array],
        loss: float,
        looks: Looks,
        series: str | None,
    ) -> None:
        step, classes = self._job.now.step, logits.shape[softmax.axis]
        rows_RK = np.moveaxis(logits, softmax.axis, -1)
        labels = next((one for one in integers if one.shape == rows_RK.shape[:-1]), None)
        probability_RK = _softmax(rows_RK)
        called = Called(
            operation="cross_entropy",
            chain=softmax.chain,
            classes=classes,
            target=labels if labels is not None else np.zeros(0, np.int64),
            prediction=probability_RK,
        )
        known = labels is not None and bool(((labels >= 0) & (labels < classes)).all())
        self._job.fact(
            LossCall(
                step=step,
                operation="cross_entropy",
                series=series,
                chain=softmax.chain,
                prediction_shape=tuple(logits.shape),
                target_shape=tuple(labels.shape) if labels is not None else None,
                classes=classes,
                location=softmax.location,
                rows_are_probabilities=_are_probabilities(rows_RK),
                label_counts=loss_looks.label_counts(called) if known else None,
                prediction_spread=loss_looks.prediction_spread(called),
                reduction="mean" if known and _is_mean(probability_RK, labels, loss) else None,
                softmax_sizes=(classes,),
                targets=loss_looks.sample(called, [_f(one) for one in looks.data], columns=True)
                if known
                else None,
                alone=len(looks.logits) == 1,
            )
        )
        self._spread(rows_RK, "the logits", softmax.location, looks)
        if known:
            self._order(series or f"{softmax.location}", softmax.location, step, called)

    def _spread(self, values: Array, root: str, place: str | None, looks: Looks) -> None:
        spread = layer_looks.spread(values) if values.ndim == 2 else None
        if spread is None:
            return
        differ = [layer_looks.rows_differ(_f(one)) for one in looks.data]
        self._job.fact(
            OutputSpread(
                step=self._job.now.step,
                root=root,
                place="",
                shape=tuple(values.shape),
                spread=spread[0],
                rms=spread[1],
                largest=spread[2],
                inputs_differ=differ[0] if differ else None,
                location=place,
            )
        )

    def _order(self, site: str, place: str | None, step: int, called: Called) -> None:
        order = self._orders.setdefault(site, TargetsInOrder(site, place))
        order.add(step, called)
        told = order.told(step, loader=None, sampler=None)
        if told is not None:
            self._job.fact(told)


def _is_elsewhere(array: Any) -> bool:
    """Return whether an array was given away, or lies in other processes, too."""
    return isinstance(array, jax.Array) and (array.is_deleted() or not array.is_fully_addressable)


def _f(array: Any) -> Array:
    return np.asarray(array)


def _host(leaf: Any) -> Array | None:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jax.numpy.issubdtype(dtype, np.integer):
        return None
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return None
    return np.asarray(leaf)


def _softmax(logits_RK: Array) -> Array:
    with np.errstate(all="ignore"):
        shifted_RK = np.exp(logits_RK - logits_RK.max(axis=-1, keepdims=True))
        return np.asarray(shifted_RK / shifted_RK.sum(axis=-1, keepdims=True))


def _are_probabilities(rows_RK: Array) -> bool:
    """Return whether rows are those of a softmax already: they sum to 1, and differ."""
    flat_RK = rows_RK.reshape(-1, rows_RK.shape[-1])
    inside = bool((flat_RK >= 0).all() and (flat_RK <= 1 + SMALL).all())
    return (
        inside
        and bool((np.abs(flat_RK.sum(axis=-1) - 1) < SMALL).all())
        and bool((np.abs(flat_RK - flat_RK[:1]) > SMALL).any())
    )


def _is_mean(probability_RK: Array, labels: Any, loss: float) -> bool:
    """Return whether a loss is the mean of the cross-entropies of its rows."""
    chosen = np.take_along_axis(probability_RK, labels[..., None].astype(np.int64), axis=-1)
    mean = float(-np.log(np.maximum(chosen, 1e-30)).mean())
    return math.isclose(mean, loss, rel_tol=1e-2, abs_tol=1e-4)
