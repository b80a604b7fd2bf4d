"""Variables that a program or an eager step uses, read and assigned through their handles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Resource:
    """A variable, identified by its handle, because the object may be inaccessible.

    Args:
        handle: handle of the variable.
        name: name of the variable; two variables may have the same name.
    """

    __slots__ = ("dtype", "handle", "name", "shape")

    def __init__(self, handle: Any, name: str) -> None:
        self.handle, self.name = handle, name
        content = handle._handle_data.shape_and_type[0]
        self.dtype = tf.as_dtype(content.dtype)
        self.shape = tuple(tf.TensorShape(content.shape).as_list())

    @property
    def size_bytes(self) -> int:
        """Size of the value in bytes."""
        values: int = math.prod(size or 0 for size in self.shape)
        return values * int(self.dtype.size)

    def tensor(self) -> Any:
        """Return the value as a tensor that shares the variable's memory."""
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)

    def assign(self, value: Any) -> None:
        """Set the variable's value."""
        tensor = tf.convert_to_tensor(value, dtype=self.dtype)
        tf.raw_ops.AssignVariableOp(resource=self.handle, value=tensor)


class Reader:
    """Reads several variables in one call, which is faster than separate calls.

    Args:
        resources: the variables.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        def read() -> list[Any]:
            return [one.tensor() for one in resources]

        self.resources = list(resources)
        self._read = tf.function(read, autograph=False).get_concrete_function()

    def __call__(self) -> list[Any]:
        """Return the values, in the order of the variables."""
        return list(self._read())


def captured_by(graph: Any) -> list[Resource]:
    """Return the variables used by a program or programs around it, in order of first use."""
    while graph.outer_graph is not None and hasattr(graph.outer_graph, "captures"):
        graph = graph.outer_graph
    names = {id(one.handle): _plain(one.name) for one in _alive(graph)}
    handles = [outside for outside, _ in graph.captures if _is_variable(outside)]
    return [Resource(handle, names.get(id(handle), "")) for handle in handles]


def resource_of(variable: Any) -> Resource | None:
    """Return the resource of a TensorFlow or Keras variable; None if it has no handle."""
    inner = variable if isinstance(variable, tf.Variable) else getattr(variable, "value", None)
    handle = getattr(inner, "handle", None)
    if inner is None or handle is None or not _is_variable(handle):
        return None
    return Resource(handle, str(getattr(variable, "path", "") or _plain(inner.name)))


def _alive(graph: Any) -> Sequence[Any]:
    try:
        return tuple(graph.variables)
    except Exception:  # one of the variables is deleted
        return ()


def _plain(name: str) -> str:
    return name.partition(":")[0]


def _is_variable(handle: Any) -> bool:
    """Return whether a handle belongs to a variable of known shape, unlike the cells here."""
    if not tf.is_tensor(handle) or handle.dtype != tf.resource:
        return False
    known = getattr(handle, "_handle_data", None)
    if known is None or not known.is_set or len(known.shape_and_type) != 1:
        return False
    return not known.shape_and_type[0].shape.unknown_rank
