"""Weights of Keras models: before the first step, at sampled steps, and without a gradient."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.keras import layers, optimizers
from mothtrap.adapters.tensorflow.probes.probes import Applied
from mothtrap.core.adapters import Job
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.products import norm
from mothtrap.tracing.describe import weights

Array = npt.NDArray[Any]


class Weights:
    """Reads variables between steps.

    Args:
        job: receives the values.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, int], int] = {}
        self._variables: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self._numbers: Counter[str] = Counter()
        self._optimizers: set[int] = set()
        self._first: list[tuple[Any, Array]] = []
        # variables found after the step began, with their values then
        self._late: list[tuple[Any, Array]] = []
        self._same: dict[int, tuple[Any, Array, int]] = {}
        self._copies: dict[int, Array] = {}
        self._known: frozenset[int] = frozenset()  # variables that existed when the step began
        self._updates: dict[int, int] = {}

    def tensor(self, kind: str, variable: Any) -> int:
        """Return the id of a tensor of a kind, by its variable."""
        key = kind, id(variable)
        if key not in self._ids:
            self._variables[id(variable)] = variable  # keeps the identity
            path = self._name(variable)
            owner = layers.OWNERS.get(id(variable))
            info = TensorInfo(
                kind=kind,
                name=path,
                module=path.rpartition("/")[0],
                module_type=layers.type_of(owner) if owner is not None else "",
                shape=tuple(int(size) for size in variable.shape),
                dtype=str(variable.dtype),
                location=layers.LOCATIONS.get(owner) if owner is not None else None,
            )
            self._ids[key] = self._job.define(info)
        return self._ids[key]

    def _name(self, variable: Any) -> str:
        """Return the path of a variable, numbered if a second model has the same names."""
        if id(variable) not in self._names:
            path = str(variable.path)
            number, self._numbers[path] = self._numbers[path], self._numbers[path] + 1
            self._names[id(variable)] = f"{path}#{number}" if number else path
        return self._names[id(variable)]

    def knows(self, variable: Any) -> bool:
        """Return whether an optimizer holds a variable."""
        return self._variables.get(id(variable)) is variable

    def first(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Record the variables of an optimizer before its first update."""
        if id(optimizer) in self._optimizers:
            return
        read = [
            (variable, value_of(variable))
            for variable in variables
            if len(variable.shape) >= 2 or self._job.wants(kind_of(variable))
        ]
        if any(values.size != math.prod(variable.shape) for variable, values in read):
            return  # their program is being traced, and will be traced again once they have values
        self._optimizers.add(id(optimizer))
        for variable in variables:
            self.tensor(kind_of(variable), variable)
        self._late += [pair for pair in read if id(pair[0]) not in self._known]
        matrices = [(variable, values) for variable, values in read if len(variable.shape) >= 2]
        self._first += matrices[: max(0, weights.MAX_LAYERS - len(self._first))]

    def before(self) -> None:
        """Capture the weights at the start of a step; copy those whose change is due."""
        self._copies = {}
        self._known = frozenset(self._variables)
        for kind in ("weight", "bias"):
            wanted = self._job.wants(kind)
            if not wanted:
                continue
            variables = self._of(kind)
            arrays = [value_of(variable) for variable in variables]
            self._job.take(kind, [self.tensor(kind, each) for each in variables], arrays)
            if "update_ratio" in wanted:
                for variable, array in zip(variables, arrays, strict=True):
                    self._copies[id(variable)] = array.copy()

    def after(
        self, applied: Sequence[Applied], called: Sequence[Any] = (), *, looked: bool
    ) -> None:
        """Capture the weights after the step.

        Args:
            applied: gradients passed to optimizers.
            called: layers in the order of their calls.
            looked: whether the gradients of the step can be read.
        """
        gradients: dict[int, Any] = {}
        for each in applied:
            count = self._updates[id(each.optimizer)] = self._updates.get(id(each.optimizer), 0) + 1
            gradients |= {id(v): slot for v, slot in each.pairs() if looked}
            if each.missing and count in (20, 40, 80, 160, 320, 640):
                self._report_unreached(each, count, called)
        if self._late:
            self._take_late()
        if self._first:
            self._report_first(gradients)
        elif looked and self._same and self._job.now.step in weights.STEPS:
            self._report_same(gradients)
        for key, old in self._copies.items():
            variable, now = self._variables[key], value_of(self._variables[key])
            kind = kind_of(variable)
            if old.shape == now.shape:
                ratio = {"update_ratio": _ratio(old, now)}
                self._job.add_row(self.tensor(kind, variable), ratio)
        self._copies = {}

    def after_several(self) -> None:
        """Capture non-finite weights after a call that made several steps.

        Only the gradients of its last step are read. An earlier step may have corrupted the weights
        and left the loss finite: `relu` of NaN is 0.
        """
        for variable in (*self._of("weight"), *self._of("bias")):
            values = value_of(variable)
            nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
            if nan or inf:
                fields = {"l2": math.nan, "nan": float(nan), "inf": float(inf)}
                self._job.add_row(self.tensor(kind_of(variable), variable), fields)

    def _take_late(self) -> None:
        """Capture the weights that the step itself has created."""
        late, self._late = self._late, []
        for kind in ("weight", "bias"):
            found = [pair for pair in late if kind_of(pair[0]) == kind]
            if found and self._job.wants(kind):
                numbers = [self.tensor(kind, variable) for variable, _ in found]
                self._job.take(kind, numbers, [values for _, values in found])

    def take_state(self, optimizer: Any) -> None:
        """Capture the optimizer's variables after an update."""
        if not self._job.wants("optimizer_state"):
            return
        ids, arrays = [], []
        for variable in optimizers.state_of(optimizer):
            number = self.tensor("optimizer_state", variable)
            if self._job.wants("optimizer_state", ids=[number]):
                ids.append(number)
                arrays.append(value_of(variable))
        self._job.take("optimizer_state", ids, arrays)

    def evaluated(self, mode: Mode) -> None:
        """Capture the weights of an evaluation forward pass."""
        for kind in ("weight", "bias"):
            if self._job.wants(kind, mode):
                variables = self._of(kind)
                numbers = [self.tensor(kind, each) for each in variables]
                self._job.take(kind, numbers, [value_of(each) for each in variables], mode=mode)

    def _of(self, kind: str) -> list[Any]:
        return [self._variables[key] for name, key in self._ids if name == kind]

    def _report_first(self, gradients: dict[int, Any]) -> None:
        first, self._first = self._first, []
        for variable, values in first:
            layer = layers.OWNERS.get(id(variable))
            if layer is None or layers.kernel_of(layer) is not variable:
                continue
            slot = gradients.get(id(variable))
            sizes = weights.sizes_of(values, slot.read() if slot is not None else None)
            fan_in = layers.fan_in(variable)
            self._job.fact(weights.initial(self._described(variable, layer), sizes, fan_in))
            if weights.are_same(values, -1, exact=True):
                self._same[id(variable)] = variable, values, 0
        self._report_same(gradients)

    def _report_same(self, gradients: dict[int, Any]) -> None:
        """Report layers whose units are still equal, and get equal gradients."""
        moved = any(
            (value_of(variable) != values).any() for variable, values, _ in self._same.values()
        )
        moved = moved or self._job.now.step > 0
        for key, (variable, values, looks) in list(self._same.items()):
            layer, slot = layers.OWNERS.get(key), gradients.get(key)
            if layer is None or slot is None:
                continue
            now, gradient = value_of(variable), slot.read()
            if not (weights.are_same(now, -1) and weights.are_same(gradient, -1)):
                del self._same[key]
                continue
            self._same[key] = variable, values, looks + 1
            self._job.fact(
                weights.identical(
                    self._described(variable, layer),
                    looks=looks + 1,
                    zero=not now.any(),
                    gradient_zero=not gradient.any(),
                    moved=moved,
                )
            )

    def _described(self, variable: Any, layer: Any) -> weights.Weight:
        return weights.Weight(
            step=self._job.now.step,
            name=str(variable.path),
            layer=layers.name_of(layer),
            layer_type=layers.type_of(layer),
            units=int(variable.shape[-1]),
            location=layers.LOCATIONS.get(layer),
        )

    def _report_unreached(self, applied: Applied, updates: int, called: Sequence[Any]) -> None:
        """Report the variables without a gradient in any update so far."""
        without = {id(variable) for variable in applied.missing}
        reached = [v for v in applied.variables if id(v) not in without]
        total = sum(math.prod(v.shape) for v in (*reached, *applied.missing)) or 1
        places = {id(layer): place for place, layer in reversed(list(enumerate(called)))}
        known = (places.get(id(layers.OWNERS.get(id(v)))) for v in reached)
        first = min((place for place in known if place is not None), default=-1)
        by_layer: dict[str, list[Any]] = {}
        for variable in applied.missing:
            by_layer.setdefault(str(variable.path).rpartition("/")[0], []).append(variable)
        for module, found in by_layer.items():
            layer = layers.OWNERS.get(id(found[0]))
            elements = sum(math.prod(v.shape) for v in found)
            self._job.fact(
                UnreachedModule(
                    step=self._job.now.step,
                    module=module,
                    parameters=tuple(str(v.path) for v in found),
                    elements=elements,
                    share=elements / total,
                    own_steps=updates,
                    runs=updates if id(layer) in places or not called else 0,
                    calls_are_seen=bool(called),
                    upstream=places.get(id(layer), first) < first,
                    location=layers.LOCATIONS.get(layer) if layer is not None else None,
                )
            )


def kind_of(variable: Any) -> str:
    """Return the tensor kind of a layer's variable."""
    return "bias" if layers.is_bias(variable) else "weight"


def value_of(variable: Any) -> Array:
    """Return the value of a variable on the host."""
    return np.asarray(keras.ops.convert_to_numpy(variable.value))


def _ratio(old: Array, now: Array) -> float:
    """Return the norm of a change divided by the norm of the weight; NaN if the latter is 0."""
    before = norm(old.astype(np.float64).reshape(-1))
    change = norm(now.astype(np.float64).reshape(-1) - old.reshape(-1))
    return change / before if before > 0 else math.nan
