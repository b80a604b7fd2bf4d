"""State before a step of a custom loop: variables, and the batch or the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras.state import array_of
from mothtrap.adapters.tensorflow.probes.resources import Resource
from mothtrap.core.snapshot_orders import StateCopy
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import values_of

Kind = Literal["function", "batch", "count", "rest"]
"""Point at which a replay begins the step: a call to a function, a batch from a dataset, or the
tape of the step with the same number. `rest`: another optimizer has already made a step with the
same gradients, so the step can be undone but not replayed.
"""
REST: Final = "another optimizer had already made a step of the same tape or function"
FIRST: Final = "the first step of a custom loop has yet to create its variables"
KEPT_TYPES: Final = (np.ndarray, np.generic, bytes, bytearray, complex, slice, range)
"""Types of arguments that a snapshot stores, in addition to tensors, numbers, texts, and
containers.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One step of a custom loop, with the data to find it again in a replay.

    Attributes:
        kind: see `Kind`.
        name: the function, the line that takes the batch, or the number of the step.
        given: the arguments as `(args, kwargs)`, the batch, or None.
    """

    kind: Kind
    name: str
    given: Any


@dataclass(slots=True, eq=False)
class HeldLoop:
    """Loop variables with their stored values; see `state.Held`.

    Attributes:
        turn: step that begins with these values.
        own: number of variables, counted from the first, that a replay needs; the others belong to
            an optimizer that is called after the step.
    """

    turn: Turn
    resources: Sequence[Resource]
    values: Sequence[Any]
    own: int

    @property
    def size_bytes(self) -> int:
        """Size of all values in bytes."""
        return sum(one.size_bytes for one in self.resources)

    def put_back(self) -> None:
        """Restore the stored values of the variables."""
        for resource, value in zip(self.resources, self.values, strict=True):
            resource.assign(value)

    def copy(self) -> StateCopy:
        """Return the values for a snapshot, without copying."""
        own = list(zip(self.resources, self.values, strict=True))[: self.own]
        arrays = {f"v{place}": array_of(value) for place, (_, value) in enumerate(own)}
        pairs = [{"list": [one.name, {"array": f"v{place}"}]} for place, (one, _) in enumerate(own)]
        tree: Tree = {
            "dict": [
                ["loop", self.turn.kind],
                ["name", self.turn.name],
                ["variables", {"list": pairs}],
            ]
        }
        return StateCopy(make=lambda: (tree, ()), arrays=arrays)


def in_snapshot(value: Any) -> Tree:
    """Return the tree of an argument that no snapshot can store; None for other arguments."""
    if isinstance(value, KEPT_TYPES):
        return None
    return {"opaque": f"{type(value).__module__}.{type(value).__qualname__}"}


def on_host(given: Any) -> Any:
    """Return arguments or a batch with tensors converted to arrays."""

    def converted(leaf: Any) -> Any:
        return leaf.numpy() if isinstance(leaf, tf.Tensor) and hasattr(leaf, "numpy") else leaf

    return tf.nest.map_structure(converted, given)


def restore_loop(
    resources: Sequence[Resource], tree: Tree, arrays: Mapping[str, Array]
) -> list[str]:
    """Restore the variables of a loop from a snapshot.

    Variables of the same name and shape are paired in order.

    Returns:
        Names of the recorded variables that are missing in the loop.
    """
    assert isinstance(tree, dict)
    waiting: dict[tuple[str, tuple[int, ...]], list[Resource]] = {}
    for resource in resources:
        waiting.setdefault((resource.name, resource.shape), []).append(resource)
    missing = []
    for each in dict(tree["dict"])["variables"]["list"]:
        name, leaf = each["list"]
        value = values_of(arrays[leaf["array"]])
        found = waiting.get((name, tuple(value.shape)))
        if found:
            found.pop(0).assign(value)
        else:
            missing.append(name)
    return missing
