"""The variables of a training step: copy before it, restore, and describe for a snapshot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from mothtrap.core.snapshot_orders import StateCopy
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import array_from, values_of


@dataclass(slots=True, eq=False)
class Held:
    """Variables with their stored values.

    A value is the result of a read, which shares the memory of the variable until the variable
    changes.
    """

    model: Any
    variables: list[Any]
    values: list[Any]

    @property
    def size_bytes(self) -> int:
        """Size of all values in bytes."""
        return sum(int(value.shape.num_elements()) * value.dtype.size for value in self.values)

    def put_back(self) -> None:
        """Restore the stored values; variables created since get their initial values."""
        for variable, value in zip(self.variables, self.values, strict=True):
            variable.assign(value)
        held = {id(variable) for variable in self.variables}
        fresh = [v for v in variables_of(self.model) if id(v) not in held]
        if fresh:
            _begin_again(self.model.optimizer, fresh)

    def copy(self) -> StateCopy:
        """Return the values for a snapshot, without copying."""
        arrays = {f"v{place}": array_of(value) for place, value in enumerate(self.values)}
        paths = [str(variable.path) for variable in self.variables]
        metrics = {id(variable) for variable in self.model.metrics_variables}
        shown = [p for v, p in zip(self.variables, paths, strict=True) if id(v) in metrics]
        tree: Tree = {
            "dict": [
                ["model", str(self.model.name)],
                [
                    "variables",
                    {"list": [{"list": [p, {"array": f"v{i}"}]} for i, p in enumerate(paths)]},
                ],
                ["metrics", {"list": list(shown)}],
            ]
        }
        return StateCopy(make=lambda: (tree, ()), arrays=arrays)


def hold(model: Any) -> Held:
    """Read all variables that a training step of a model may change."""
    variables = variables_of(model)
    return Held(model, variables, [read(variable) for variable in variables])


def variables_of(model: Any) -> list[Any]:
    """Return the distinct weights, statistics, seeds, metrics, and optimizer variables."""
    own = getattr(model, "optimizer", None)
    every = [*model.variables, *model.metrics_variables, *(own.variables if own else ())]
    return list({id(variable): variable for variable in every}.values())


def size_of(variables: Sequence[Any]) -> int:
    """Return the size of some variables in bytes."""
    return sum(math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables)


def array_of(value: Any) -> Array:
    """Return a host tensor or array for a snapshot."""
    return array_from(np.asarray(value.numpy() if hasattr(value, "numpy") else value))


def restore(model: Any, tree: Tree, arrays: Mapping[str, Array]) -> list[str]:
    """Restore the variables of a model from a snapshot.

    Returns:
        Paths of the recorded variables that are missing in the model, except for metrics, which
        Keras creates late.
    """
    assert isinstance(tree, dict)
    content = dict(tree["dict"])
    recorded: list[tuple[str, Any]] = [
        (path, values_of(arrays[leaf["array"]]))
        for path, leaf in (each["list"] for each in content["variables"]["list"])
    ]
    outer = model.optimizer
    for one in (outer, getattr(outer, "inner_optimizer", None)):
        if one is not None and not one.built:
            one.build(model.trainable_variables)
    pairs, missing = _paired(variables_of(model), recorded)
    for variable, value in pairs:
        variable.assign(value)
    return [path for path in missing if path not in content["metrics"]["list"]]


def _paired(
    variables: Sequence[Any], recorded: Sequence[tuple[str, Any]]
) -> tuple[list[tuple[Any, Any]], list[str]]:
    """Pair variables by path, and in order if several have the same path.

    The optimizer inside a loss scale has a different path if it was not built by its first step.
    """
    waiting: dict[str, list[Any]] = {}
    for variable in variables:
        waiting.setdefault(str(variable.path), []).append(variable)
    pairs, missing = [], []
    for path, value in recorded:
        found = waiting.get(path) or waiting.get(path.partition("/")[2])
        if found and tuple(found[0].shape) == tuple(value.shape):
            pairs.append((found.pop(0), value))
        else:
            missing.append(path)
    return pairs, missing


def read(variable: Any) -> Any:
    """Return the value of a variable, as a tensor that shares its memory."""
    inner = variable.value
    handle = getattr(inner, "handle", None)
    if handle is None:
        return tf.convert_to_tensor(inner)
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=inner.dtype)


def _begin_again(optimizer: Any, fresh: Sequence[Any]) -> None:
    """Restore the initial values of variables that an optimizer created in its first step."""
    twin = type(optimizer).from_config(optimizer.get_config())
    twin.build(optimizer._trainable_variables)
    first = {str(v.path).partition("/")[2]: v for v in twin.variables}
    for variable in fresh:
        value = first.get(str(variable.path).partition("/")[2])
        if value is not None:
            variable.assign(value.value)
