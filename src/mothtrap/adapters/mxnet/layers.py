"""Facts about layers in a Gluon forward: data, units, outputs, activations, modes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from mxnet import gluon
from mxnet.ndarray import NDArray

from mothtrap.adapters.mxnet import losses
from mothtrap.adapters.mxnet.forward import Forward, LayerCall
from mothtrap.adapters.mxnet.tensors import SATURATING, ForwardTensors
from mothtrap.core.adapters import Job
from mothtrap.core.facts.evaluations import DropoutRate, TrainingMode
from mothtrap.core.facts.layers import (
    DataTaken,
    ForwardScales,
    LayerScale,
    OutputSpread,
    UnitInputs,
)
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.schedule import Schedule
from mothtrap.tracing.describe import layer_numbers
from mothtrap.tracing.describe import layers as describe

Array = npt.NDArray[Any]
OF_LAYERS: Final = (LossCall, DataTaken, ForwardScales, OutputSpread, UnitInputs)
WHEN: Final = Schedule(logarithmic=True)
"""Steps whose layers and losses are described: the first steps, then increasingly rare ones."""
HIDDEN: Final = "it is hybridized, so its layers are not called one by one"
MAX_NAMES: Final = 8
LINEAR: Final = (gluon.nn.Dense, gluon.nn.Conv1D, gluon.nn.Conv2D, gluon.nn.Conv3D)
"""Layers whose sizes are reported; the first axis of their weight is the units."""
NORMS: Final = (gluon.nn.BatchNorm, gluon.nn.LayerNorm, gluon.nn.InstanceNorm)


class Looks:
    """Describes the layers and the losses of a step.

    Attributes:
        tensors: receives the requested tensors.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job, self.tensors = job, ForwardTensors(job)
        self._modes: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()

    def are_due(self) -> bool:
        """Return whether layers and losses are described in the step in progress."""
        return WHEN.is_due(self._job.now.step)

    def report(self, forward: Forward) -> None:
        """Report the observations in a forward pass."""
        step, root = self._job.now.step, forward.latest
        if root is not None:
            self._report_mode(root, forward.trains, step)
        self.tensors.trained(forward)
        if not self.are_due():
            return
        chains = {id(call.gave): _chain(call.layer) for call in forward.calls}
        inputs = [given.asnumpy() for given in forward.given if isinstance(given, NDArray)]
        for loss, args, place in forward.losses:
            found = losses.fact(
                loss, args, place, chains, inputs, step=step, alone=len(forward.losses) == 1
            )
            if found is not None:
                self._job.fact(found)
        for call in forward.calls:
            self._report_layer(call, step)
        self._report_scales(root, forward, step)
        if root is not None and getattr(root, "_active", False):
            self._job.blind(f"layers of {root.name}", HIDDEN)
        if root is not None and isinstance(forward.gave, NDArray):
            self._report_output(root, forward.gave.asnumpy(), inputs, step)

    def _report_mode(self, root: Any, trains: bool, step: int) -> None:
        """Report whether dropouts and batch norms behave as in training."""
        parts = list(_parts(root))
        dropouts = {part.name: float(part._rate) for part in parts if _is_dropout(part)}
        norms = [part.name for part in parts if isinstance(part, gluon.nn.BatchNorm)]
        named = list(dropouts)[:MAX_NAMES]
        state = trains, len(dropouts), len(norms)
        if not (dropouts or norms) or self._modes.get(root) == state:
            return
        self._modes[root] = state
        self._job.fact(
            TrainingMode(
                step=step,
                module=root.name,
                module_type=type(root).__name__,
                trains=trains,
                dropouts=tuple(named),
                rates=tuple(DropoutRate(name=name, rate=dropouts[name]) for name in named),
                norms=tuple(norms[:MAX_NAMES]),
                sleeping=() if trains else tuple((named + norms)[:MAX_NAMES]),
            )
        )

    def _report_layer(self, call: LayerCall, step: int) -> None:
        layer, function = call.layer, getattr(call.layer, "_act_type", "")
        weight = call.weight if call.is_data else None
        if weight is not None and len(weight.shape) >= 2:
            is_grid, given = len(weight.shape) > 2, call.given.asnumpy()
            values = np.moveaxis(given, 1, -1) if is_grid else given.reshape(len(given), -1)
            found = describe.data_taken(
                values,
                grid=is_grid,
                step=step,
                layer=layer.name,
                layer_type=type(layer).__name__,
                shape=tuple(given.shape),
                gain=_gain(weight),
            )
            if found is not None and values.dtype.kind == "f":
                self._job.fact(found)
        if function in SATURATING:
            counted = layer_numbers.unit_inputs(call.gave.asnumpy(), function)
            if counted is not None:
                self._job.fact(
                    UnitInputs(
                        step=step,
                        module=layer.name,
                        module_type=type(layer).__name__,
                        function=function,
                        units=counted[0],
                        edges=layer_numbers.EDGES,
                        counts=counted[1],
                    )
                )

    def _report_scales(self, root: Any, forward: Forward, step: int) -> None:
        calls = [call for call in forward.calls if not isinstance(call.layer, gluon.nn.Activation)]
        before = {id(call.layer): call.given for call in forward.calls}
        normal = [isinstance(call.layer, NORMS) for call in calls]
        scales: list[LayerScale] = []
        for place, call in enumerate(calls):
            if call.weight is None or not isinstance(call.layer, LINEAR):
                continue
            gave = before.get(id(call.layer.act), call.gave)  # the input of its activation
            (taken, _), (square, variance) = (
                layer_numbers.sizes(each.asnumpy()) for each in (call.given, gave)
            )
            if not np.isfinite((taken, square, variance)).all():
                return
            scales.append(
                LayerScale(
                    layer=call.layer.name,
                    layer_type=type(call.layer).__name__,
                    input_rms=taken**0.5,
                    output_rms=square**0.5,
                    variance=variance,
                    gain=_gain(call.weight),
                    fan_in=math.prod(call.weight.shape[1:]),
                    normalized=any(normal[place + 1 : place + 3]),
                    last=gave is forward.gave,
                )
            )
        if scales and root is not None:
            self._job.fact(
                ForwardScales(
                    step=step, root=root.name, layers=tuple(scales), normalizes=any(normal)
                )
            )

    def _report_output(self, root: Any, gave: Array, inputs: list[Array], step: int) -> None:
        differ = layer_numbers.rows_differ(inputs[0]) if inputs else None
        found = describe.output_spread(gave, step=step, root=root.name, inputs_differ=differ)
        if found is not None:
            self._job.fact(found)


def _chain(layer: Any) -> tuple[str, ...]:
    """Return the operations of a layer, last first, in the format of `LossCall.chain`."""
    function = getattr(layer, "_act_type", None) or getattr(
        getattr(layer, "act", None), "_act_type", None
    )
    own = (str(function),) if function else ()
    return (*own, "linear") if isinstance(getattr(layer, "weight", None), gluon.Parameter) else own


def _parts(block: Any) -> Iterator[Any]:
    yield block
    for child in block._children.values():
        yield from _parts(child)


def _is_dropout(block: Any) -> bool:
    return isinstance(block, gluon.nn.Dropout) and block._rate > 0


def weight_of(layer: Any) -> NDArray | None:
    """Return a copy of a layer's weight, made before a step changes it."""
    weight = getattr(layer, "weight", None)
    return weight.list_data()[0].copy() if isinstance(weight, gluon.Parameter) else None


def _gain(weight: NDArray) -> float:
    """Return the factor by which a layer scales inputs of mean 0; its units are the first axis."""
    mean_square, _ = layer_numbers.sizes(weight.asnumpy())
    return layer_numbers.gain(mean_square, math.prod(weight.shape[1:]))
