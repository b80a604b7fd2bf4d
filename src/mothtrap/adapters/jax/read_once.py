"""Values that functions under `jax.jit` read while they are traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.same_rows import readable
from mothtrap.core.adapters import Job
from mothtrap.tracing.describe.values_read_once import ReadOnce

MOST_LEAVES: Final = 4096
MOST_BYTES: Final = 1 << 28
"""Maximum bytes of the arrays of a value; larger values are not compared."""


def reading(job: Job, fun: Any, args: Sequence[Any]) -> ReadOnce:
    """Return an observer of the values that a function reads, before the function is traced.

    Args:
        job: receives the facts.
        fun: the function of the script.
        args: its arguments by position. The first one can be a static object, `self`.
    """
    leaves = jax.tree_util.tree_leaves(args[0]) if args else []
    is_static = len(leaves) == 1 and leaves[0] is args[0] and not hasattr(args[0], "dtype")
    owner = args[0] if is_static else None
    return ReadOnce(job, [(fun, owner)], arrays_in)


def arrays_in(value: Any) -> Sequence[npt.NDArray[Any]]:
    """Return the arrays of a tree; empty if it has none, or one cannot be read."""
    if isinstance(value, type | str | bytes) or (
        callable(value) and not hasattr(value, "__dict__")
    ):
        return ()
    leaves = jax.tree_util.tree_leaves(value)
    if not 0 < len(leaves) <= MOST_LEAVES:
        return ()
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray)]
    if not arrays or any(isinstance(leaf, jax.core.Tracer) for leaf in arrays):
        return ()
    if sum(leaf.nbytes for leaf in arrays) > MOST_BYTES:
        return ()
    found = [_host(leaf) for leaf in arrays]
    return [one for one in found if one is not None]


def _host(leaf: Any) -> npt.NDArray[Any] | None:
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
        return None
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    is_key = leaf.dtype == np.uint32 and leaf.shape[-1:] == (2,)
    return np.asarray(leaf) if is_key or not leaf.ndim else readable(leaf)
