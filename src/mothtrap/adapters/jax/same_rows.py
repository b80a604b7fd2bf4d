"""Steps that take the same few rows of their data again and again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.functions import Layout
from mothtrap.adapters.jax.shadow import Looks, Shadow
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import OneBatchUsed

Array = npt.NDArray[Any]

OF_ROWS: Final = (OneBatchUsed,)
REPORTED_AT: Final = (16, 32)
"""Number of inspections with the same rows after which this is reported."""
PART: Final = 0.25
"""Largest share of the rows of an argument that is a batch of it; chosen by hand. A larger share
may be its training part."""
MOST_COPIED: Final = 1 << 28
"""Maximum bytes of an array that is copied from another device."""


@dataclass(slots=True)
class _Seen:
    """Rows that the first layer got in all inspections so far; `count` is 0 once they differed."""

    digest: bytes
    first_step: int
    count: int = 0


class SameRows:
    """Compares the rows that steps cut out of their arguments.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._seen: dict[Shadow, _Seen] = {}

    def describe(self, shadow: Shadow, looks: Looks, inputs: Any, layout: Layout) -> None:
        """Compare the rows of the first layer with those of earlier steps."""
        self._job.stood_ready(OF_ROWS)
        given = np.asarray(looks.data[0]) if looks.data else np.zeros(0)
        every = _rows_given(given.shape, inputs, layout.weights.values())
        if not every or len(given) < 2 or not (given != given[:1]).any():
            return
        digest = hashlib.blake2b(given.tobytes(), digest_size=16).digest()
        step = self._job.now.step
        seen = self._seen.setdefault(shadow, _Seen(digest, step, 1))
        if not seen.count or seen.first_step == step:
            return
        seen.count = seen.count + 1 if digest == seen.digest else 0
        if seen.count in REPORTED_AT:
            self._job.fact(
                OneBatchUsed(
                    step=step,
                    loader=layout.function,
                    steps=seen.count,
                    unused=0,
                    first_step=seen.first_step,
                    rows=len(given),
                    of_rows=every,
                    location=layout.place,
                )
            )


def _rows_given(shape: tuple[int, ...], inputs: Any, weights: Collection[int]) -> int:
    """Return the rows of the argument of which an array of some shape is a small part; else 0.

    An array that is an argument itself is cut out of none. Weights hold no rows of data, nor do
    arrays of their shapes, such as the moments of an optimizer.
    """
    sizes = [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(inputs)]
    if len(shape) < 2 or shape in sizes:
        return 0
    of_weights = {sizes[place] for place in weights}
    for size in sizes:
        is_alike = len(size) > 1 and math.prod(size[1:]) == math.prod(shape[1:])
        if is_alike and size not in of_weights and shape[0] <= PART * size[0]:
            return int(size[0])
    return 0


def readable(leaf: Any, rows: int | None = None) -> Array | None:
    """Return an argument as an array of the host; None for random keys and what is not here.

    Args:
        leaf: the argument.
        rows: number of its first rows to read; None = all.
    """
    if isinstance(leaf, jax.Array):
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if is_key or leaf.is_deleted() or not leaf.is_fully_addressable:
            return None
        if any(device.platform != "cpu" for device in leaf.devices()):
            if rows is None and leaf.nbytes > MOST_COPIED:
                return None
            leaf = leaf[:rows]
        leaf = np.asarray(leaf)
    if not isinstance(leaf, np.ndarray):
        return None
    is_raw_key = leaf.dtype == np.uint32 and leaf.shape[-1:] in ((2,), (4,))
    return None if is_raw_key else leaf[:rows]
