"""Facts about layers in a training forward: data, sizes, units, activations, modes."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final

import keras
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.keras import internals, layers
from mothtrap.adapters.keras.weights import value_of
from mothtrap.adapters.tensorflow.probes.probes import LayerCall, Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.core.adapters import Job
from mothtrap.core.facts.evaluations import DropoutRate, NormAverages, TrainingMode
from mothtrap.core.facts.layers import (
    ForwardScales,
    LayerScale,
    UnitInputs,
)
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.tracing.describe import layer_numbers
from mothtrap.tracing.describe import layers as describe
from mothtrap.tracing.describe.norm_samples import NormSamples
from mothtrap.tracing.jobs.identity import ByIdentity

Array = npt.NDArray[Any]
WHEN: Final = Schedule(logarithmic=True)
"""Steps in which layers are described: the first steps, then increasingly rare ones."""
BATCHES: Final = 8
"""Sampled batches in which a unit must be inactive to count as such."""
MAX_DATA, MAX_UNITS, MAX_LAYERS = 4, 8, 256
MAX_NAMES: Final = 8


class Forwards:
    """Describes the layers of a forward pass from recorded data.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, int], int] = {}
        self._masks: dict[tuple[int, str], deque[Array]] = {}
        self._modes: dict[int, tuple[object, ...]] = {}
        self._samples: ByIdentity[Any, NormSamples] = ByIdentity()
        self._averaging: weakref.WeakSet[Any] = weakref.WeakSet()

    def report(self, look: Look, step: int, given: Collection[int] = ()) -> None:
        """Report the observations in a forward pass.

        Args:
            look: observations of the step.
            step: training step.
            given: identities of the variables that optimizers hold; empty without an optimizer.
        """
        calls = look.layers[:MAX_LAYERS]
        if not calls:
            return
        self._report_modes(calls, step, given)
        self._report_samples(calls, step)
        self._report_averages(calls, step)
        for kind in ("activation", "input"):
            self._take(kind, calls)
        if WHEN.is_due(step):
            self._report_layers(calls, step)

    def _take(self, kind: str, calls: Sequence[LayerCall]) -> None:
        """Record the outputs or inputs of layers."""
        if not self._job.wants(kind):
            return
        ids: list[int] = []
        arrays: list[Array] = []
        for call in calls:
            slot = call.gave if kind == "activation" else call.given
            if slot is None:
                continue
            number = self._tensor(kind, call, slot)
            wanted = self._job.wants(kind, ids=[number])
            if not wanted:
                continue
            values = slot.read()
            ids.append(number)
            arrays.append(values)
            for share in wanted & {"inactive", "saturated"}:
                self._note(number, share, values, call)
        if ids:
            with self._job.forward():
                self._job.take(kind, ids, arrays, mode=Mode.TRAIN)

    def _tensor(self, kind: str, call: LayerCall, slot: Slot) -> int:
        layer, key = call.layer, (kind, id(call.layer))
        if key not in self._ids:
            name = layers.name_of(layer)
            self._ids[key] = self._job.define(
                TensorInfo(
                    kind=kind,
                    name=name,
                    module=name,
                    module_type=layers.type_of(layer),
                    role=layers.role_of(layer) if kind == "activation" else "",
                    shape=slot.read().shape,
                    dtype=slot.dtype,
                    location=layers.LOCATIONS.get(layer),
                    of_root=kind == "activation" and call.last,
                )
            )
        return self._ids[key]

    def _note(self, number: int, share: str, values: Array, call: LayerCall) -> None:
        activation = layers.activation_of(call.layer)
        if share == "inactive":
            found = layer_numbers.inactive_units(values)
        elif activation in layers.SATURATING:
            found = layer_numbers.saturated_units(values, activation)
        else:
            return
        if found is None:
            return
        masks = self._masks.setdefault((number, share), deque(maxlen=BATCHES))
        if masks and masks[0].shape != found.shape:
            masks.clear()
        masks.append(found)
        always_F = np.logical_and.reduce(list(masks))
        self._job.add_row(number, {share: float(always_F.mean())})

    def _report_modes(self, calls: Sequence[LayerCall], step: int, given: Collection[int]) -> None:
        """Report the training flag with which the layers of each trained model run."""
        by_root: dict[int, list[LayerCall]] = {}
        for call in calls:
            by_root.setdefault(id(call.root), []).append(call)
        for several in by_root.values():
            trained = several[0].root.trainable_variables
            if any(not given or id(variable) in given for variable in trained):
                flagged = [call for call in several if internals.has_training_flag(call.layer)]
                self._report_mode(flagged, step)

    def _report_mode(self, calls: Sequence[LayerCall], step: int) -> None:
        """Report the training flag of those layers of a model that depend on it."""
        dropouts = [c for c in calls if layers.is_dropout(c.layer) and c.layer.trainable]
        norms = [call for call in calls if layers.is_batch_norm(call.layer)]
        if not dropouts and not norms:
            return
        root = calls[0].root
        asleep = [call for call in (*dropouts, *norms) if not call.training]
        mode = (len(asleep), len(dropouts), len(norms))
        if self._modes.get(id(root)) == mode:
            return
        self._modes[id(root)] = mode
        self._job.fact(
            TrainingMode(
                step=step,
                module=layers.name_of(root),
                module_type=layers.type_of(root),
                trains=len(asleep) < len(dropouts) + len(norms),
                dropouts=_names(dropouts),
                rates=tuple(
                    DropoutRate(
                        name=layers.name_of(call.layer),
                        rate=layers.dropped(call.layer),
                        location=layers.LOCATIONS.get(call.layer),
                    )
                    for call in dropouts[:MAX_NAMES]
                ),
                norms=_names(norms),
                sleeping=_names(asleep),
                location=calls[0].called_at if asleep else layers.LOCATIONS.get(root),
            )
        )

    def _report_samples(self, calls: Sequence[LayerCall], step: int) -> None:
        """Report how many rows the batch norms of a model receive."""
        norms = [c for c in calls if layers.is_batch_norm(c.layer) and c.training]
        sizes = [(len(c.gave.read()), c.layer) for c in norms if c.gave is not None]
        if not sizes:
            return
        seen = self._samples.get(calls[0].root)
        if seen is None:
            seen = self._samples[calls[0].root] = NormSamples()
        rows, layer = min(sizes, key=lambda pair: pair[0])
        seen.add(rows)
        if seen.is_due:
            self._job.fact(seen.fact(step, layers.name_of(layer), layers.LOCATIONS.get(layer)))

    def _report_averages(self, calls: Sequence[LayerCall], step: int) -> None:
        """Report the slowest of the batch norms that are trained for the first time."""
        norms = [call.layer for call in calls if layers.is_batch_norm(call.layer) and call.training]
        new = [one for one in norms if one not in self._averaging and layers.averages_are_new(one)]
        self._averaging.update(norms)
        if not new:
            return
        slowest = max(new, key=lambda norm: norm.momentum)
        self._job.fact(
            NormAverages(
                step=step,
                module=layers.name_of(slowest),
                momentum=1.0 - float(slowest.momentum),
                updates=1,
                location=layers.LOCATIONS.get(slowest),
            )
        )

    def _report_layers(self, calls: Sequence[LayerCall], step: int) -> None:
        scales: list[LayerScale] = []
        data = units = 0
        normal = [_normalizes(call) for call in calls]
        for place, call in enumerate(calls):
            gave = call.gave.read() if call.gave is not None else None
            following = any(normal[place + 1 : place + 2])
            kernel = layers.kernel_of(call.layer)
            if gave is not None and kernel is not None and call.given is not None:
                given = call.given.read()
                scale = _scale(call, kernel, given, gave, normalized=following)
                if scale is not None:
                    scales.append(scale)
                if call.data and data < MAX_DATA:
                    data += 1
                    self._report_data(call, kernel, given, step, normalized=following)
            function = layers.SATURATING.get(layers.activation_of(call.layer))
            if gave is not None and function is not None and units < MAX_UNITS:
                units += 1
                self._report_units(call, gave, function, step)
            if gave is not None and call.last:
                self._report_output(calls, call, gave, step)
        if scales:
            root = layers.name_of(calls[0].root)
            self._job.fact(
                ForwardScales(step=step, root=root, layers=tuple(scales), normalizes=any(normal))
            )

    def _report_data(
        self, call: LayerCall, kernel: Any, given: Array, step: int, *, normalized: bool
    ) -> None:
        if call.given is None or given.dtype.kind != "f":
            return
        found = describe.data_taken(
            given,
            grid=layers.is_grid(call.layer),
            step=step,
            layer=layers.name_of(call.layer),
            layer_type=layers.type_of(call.layer),
            location=layers.LOCATIONS.get(call.layer),
            shape=given.shape,
            gain=_gain(call, kernel),
            normalized=normalized,
        )
        if found is not None:
            self._job.fact(found)

    def _report_units(self, call: LayerCall, gave: Array, function: str, step: int) -> None:
        found = layer_numbers.unit_inputs(gave, function)
        if found is None:
            return
        self._job.fact(
            UnitInputs(
                step=step,
                module=layers.name_of(call.layer),
                module_type=layers.type_of(call.layer),
                location=layers.LOCATIONS.get(call.layer),
                function=function,
                units=found[0],
                edges=layer_numbers.EDGES,
                counts=found[1],
                last=call.last,
            )
        )

    def _report_output(
        self, calls: Sequence[LayerCall], call: LayerCall, gave: Array, step: int
    ) -> None:
        first = next((c.given for c in calls if c.data and c.given is not None), None)
        found = describe.output_spread(
            gave,
            step=step,
            root=layers.name_of(call.root),
            place=layers.name_of(call.layer),
            inputs_differ=layer_numbers.rows_differ(first.read()) if first else None,
            location=layers.LOCATIONS.get(call.root),
        )
        if found is not None:
            self._job.fact(found)


def _scale(
    call: LayerCall, kernel: Any, given: Array, gave: Array, *, normalized: bool
) -> LayerScale | None:
    (taken, _), (square, variance) = layer_numbers.sizes(given), layer_numbers.sizes(gave)
    if not all(np.isfinite((taken, square, variance))):
        return None
    return LayerScale(
        layer=layers.name_of(call.layer),
        layer_type=layers.type_of(call.layer),
        location=layers.LOCATIONS.get(call.layer),
        input_rms=taken**0.5,
        output_rms=square**0.5,
        variance=variance,
        gain=_gain(call, kernel),
        fan_in=layers.fan_in(kernel),
        normalized=normalized,
        last=call.last,
    )


def _normalizes(call: LayerCall) -> bool:
    """Return whether a layer normalizes its input; a frozen batch norm does not."""
    if isinstance(call.layer, keras.layers.BatchNormalization):
        return layers.is_batch_norm(call.layer) and bool(call.training)
    return layers.normalizes(call.layer)


def _gain(call: LayerCall, kernel: Any) -> float:
    if call.mean_square is not None:
        mean_square = float(call.mean_square.read())
    else:  # the step may have changed it
        mean_square, _ = layer_numbers.sizes(value_of(kernel))
    return layer_numbers.gain(mean_square, layers.fan_in(kernel))


def _names(calls: Sequence[LayerCall]) -> tuple[str, ...]:
    return tuple(layers.name_of(call.layer) for call in calls[:MAX_NAMES])
