"""Split the arguments of a compiled function into plain trees and arrays, and join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.donations import Result
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import Opaque, TreeMaker, array_from, value_of, values_of


class LeafWriter:
    """Converts arguments to trees.

    Args:
        prefix: prefix of the keys of the arrays.

    Attributes:
        arrays: arrays by key.
        missing: data that could not be kept, in words.
    """

    def __init__(self, prefix: str) -> None:
        self.arrays: dict[str, Array] = {}
        self._prefix = prefix
        self._maker = TreeMaker(self._own, lambda values: {"array": self._keep(values)})

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of values that were not stored; a replay uses the script's own values."""
        return tuple(self._maker.opaque)

    def trees(self, leaves: Sequence[Any]) -> Tree:
        """Convert some arguments to one tree."""
        return {"list": [self._maker.tree(leaf) for leaf in leaves]}

    def _own(self, value: Any) -> Tree:
        if isinstance(value, Result):
            return {"framework": "result", "fields": {"index": value.index}}
        if not isinstance(value, jax.Array):
            return None
        if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
            data = {"array": self._keep(np.asarray(jax.random.key_data(value)))}
            return {
                "framework": "key",
                "fields": {"data": data, "impl": str(jax.random.key_impl(value))},
            }
        tree: dict[str, Any] = {"tensor": self._keep(np.asarray(value))}
        return {**tree, "weak": True} if value.aval.weak_type else tree

    def _keep(self, values: np.ndarray[Any, Any]) -> str:
        key = f"{self._prefix}{len(self.arrays)}"
        self.arrays[key] = array_from(values)
        return key


def leaves_of(tree: Tree, arrays: Mapping[str, Array], own: Sequence[Any]) -> list[Any]:
    """Return recorded arguments.

    Args:
        tree: result of `LeafWriter.trees`.
        arrays: arrays by key.
        own: arguments of the script, in the same order: recorded arrays go to their devices, and
            they provide data that was not kept.
    """

    def made(form: dict[str, Any]) -> Any:
        if form.get("framework") == "result":
            return Result(form["fields"]["index"])
        if form.get("framework") == "key":
            fields = form["fields"]
            return jax.random.wrap_key_data(fields["data"], impl=fields["impl"])
        array = jax.numpy.asarray(values_of(arrays[form["tensor"]]))
        return internals.weakly_typed(array) if form.get("weak") else array

    recorded = value_of(tree, arrays, made)
    return [_placed(leaf, like) for leaf, like in zip(recorded, own, strict=True)]


def _placed(leaf: Any, like: Any) -> Any:
    if isinstance(leaf, Opaque):
        return like
    if isinstance(leaf, jax.Array) and isinstance(like, jax.Array) and like.committed:
        return jax.device_put(leaf, like.sharding)
    return leaf


def batch_of(weights: Sequence[int], leaves: Sequence[Any]) -> tuple[int, tuple[int, ...]]:
    """Return the number of rows of a batch, and the positions of its arrays in the arguments.

    An array counts as part of the batch if it is not a key, and its shape differs from those of all
    weights, because optimizers have arrays of their shapes.

    Args:
        weights: positions of the weights.
        leaves: all arguments.
    """
    shapes = {np.shape(leaves[index]) for index in weights}
    rows: dict[int, list[int]] = {}
    for index, leaf in enumerate(leaves):
        is_array = isinstance(leaf, jax.Array | np.ndarray) and leaf.ndim > 0
        if not is_array or leaf.shape in shapes or _is_key(leaf):
            continue
        rows.setdefault(len(leaf), []).append(index)
    if not rows:
        return 0, ()
    count = max(rows, key=lambda n: (len(rows[n]), sum(leaves[index].size for index in rows[n])))
    return count, tuple(rows[count])


def _is_key(leaf: Any) -> bool:
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return True
    return bool(leaf.dtype == np.uint32 and leaf.shape == (2,))
