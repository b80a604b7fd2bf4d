"""Facts about layers, from the results of the shadow of a step."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.functions import Layout
from mothtrap.adapters.jax.shadow import LAYERS, SATURATING, Activation, Looks, Shadow
from mothtrap.core.adapters import Job
from mothtrap.core.facts.layers import (
    DataTaken,
    ForwardScales,
    LayerScale,
    OutputSpread,
    UnitInputs,
)
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.tracing.describe import layer_numbers
from mothtrap.tracing.describe import layers as describe

Array = npt.NDArray[Any]

OF_SHADOWS: Final = (DataTaken, ForwardScales, OutputSpread, UnitInputs)
OF_WIRING: Final = (UnreachedModule,)
UNREACHED_AT: Final = (20, 40, 64)
"""Inspections after which weights without a path to the loss are reported."""


class LayerFacts:
    """Reports the layers that a shadow observes.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._steps = 0

    def describe(self, shadow: Shadow, looks: Looks, layout: Layout) -> None:
        """Report the layers of a step, and weights that its loss does not depend on."""
        self._layers(shadow, looks)
        self._unreached(shadow, looks, layout)

    def spread(
        self, values: Array, root: str, location: str | None, looks: Looks, place: str = ""
    ) -> None:
        """Report how much the rows of an output differ.

        Args:
            values: the output.
            root: the model.
            location: line of the output.
            looks: observations with the data from which the output was computed.
            place: name among several outputs.
        """
        if values.ndim != 2:
            return
        first = next((np.asarray(one) for one in looks.data), None)
        alike = (one for one in looks.data if one.ndim > 1 and one.shape[0] == len(values))
        given = (np.asarray(one) for one in alike if one[0].size == values[0].size)
        own = next(filter(None, map(layer_numbers.spread, given)), None)
        found = describe.output_spread(
            values,
            step=self._job.now.step,
            root=root,
            place=place,
            inputs_differ=None if first is None else layer_numbers.rows_differ(first),
            input_spread=own[0] if own is not None else None,
            location=location,
        )
        if found is not None:
            self._job.fact(found)

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
            gain = layer_numbers.gain(weights, info.fan_in)
            out, variance = layer_numbers.sizes(np.asarray(array, dtype=np.float32))
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
        seen = layer_numbers.unit_inputs(values, info.operation)
        if seen is not None:
            self._job.fact(
                UnitInputs(
                    step=self._job.now.step,
                    module=info.name,
                    module_type=info.operation,
                    function=info.operation,
                    units=seen[0],
                    edges=layer_numbers.EDGES,
                    counts=seen[1],
                    last=last,
                    location=info.location,
                )
            )

    def _unreached(self, shadow: Shadow, looks: Looks, layout: Layout) -> None:
        """Report weights on which the loss does not depend, so their gradients are always 0."""
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
        found = describe.data_taken(
            values,
            grid=kind == "conv",
            step=self._job.now.step,
            layer=name,
            layer_type=kind,
            shape=tuple(values.shape),
            gain=gain,
            location=place,
        )
        if found is not None:
            self._job.fact(found)
