"""Custom loops that train on one batch, although their datasets have others."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow.probes.batches import DRAWN, DrawnElement
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.slots import MAX_ROWS
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import OneBatchUsed
from mothtrap.tracing.source import frames, loops

REPORTED_AT: Final = (32, 128)
"""Consecutive inspected steps with the same batch after which this is reported."""
LEAST_ROWS: Final = 2
MOST_BYTES, COMPARED_BYTES = 1 << 26, 1 << 20
"""Maximum bytes of an element that is read, and bytes of an array that are compared: evenly spread
rows."""


class UnusedElements:
    """Compares the batch of each step with the element that the loop draws for it.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._batch, self._element = b"", b""
        self._first = self._steps = self._others = self._restarts = 0
        self._iterator: Any = None
        self._was_drawn = False

    def report(self, look: Look, step: int) -> None:
        """Report a batch that a loop trains on in all of its latest inspected steps."""
        inputs = [c.given.read() for c in look.layers if c.data and c.given is not None]
        targets = [c.target.read() for c in look.losses if c.target is not None]
        targets += [loss.target.read() for loss in look.raw]
        drawn = DRAWN.latest
        arrays = _arrays(drawn.element) if drawn is not None else []
        differs = any(len(a) >= LEAST_ROWS and bool((a != a[:1]).any()) for a in inputs if a.ndim)
        if drawn is None or not targets or not differs or not _is_batch(arrays, inputs[0]):
            self._batch = b""
            return
        batch, element = _digest([*inputs, *targets]), _digest(arrays)
        if batch != self._batch:
            self._batch, self._first, self._steps = batch, step, 0
            self._others = self._restarts = 0
            self._was_drawn = _was_drawn(inputs[0])
        elif element != self._element:
            self._others += 1
        elif drawn.iterator is not self._iterator:
            self._restarts += 1
        self._element, self._iterator = element, drawn.iterator
        self._steps += 1
        if self._steps in REPORTED_AT:
            self._report(drawn, step, len(inputs[0]))

    def _report(self, drawn: DrawnElement, step: int, rows: int) -> None:
        """Report the batch if the loop draws other elements, or a new iterator in each step."""
        source, others = "", self._others
        if not others and self._restarts == self._steps - 1:
            source, others = _restarted()
        elif not self._was_drawn or 2 * others < self._steps:
            return  # trained on all rows; or a loop may draw the same element in inspected steps
        if others:
            self._job.fact(
                OneBatchUsed(
                    step=step,
                    loader="the loop" if source else "the dataset",
                    steps=self._steps,
                    unused=others,
                    first_step=self._first,
                    rows=rows,
                    source=source,
                    location=drawn.location,
                )
            )


def _restarted() -> tuple[str, int]:
    """Return the dataset whose iterator a running loop creates anew, as `loops.restarted`."""
    frame = frames.user_frame()
    while frame is not None:
        if frames.is_users(frame):
            source, others = loops.restarted(frame)
            if source:
                return source, others
        frame = frame.f_back
    return "", 0


def _was_drawn(given: Array) -> bool:
    """Return whether an input is a tensor that the script has drawn from a dataset and still has.

    Otherwise it may be the whole training data, while the loop draws validation batches.
    """
    alive = [leaf for one in DRAWN.earlier if (leaf := one()) is not None]
    return any(
        np.array_equal(array[: len(given)].reshape(given.shape), given)
        for array in _arrays(alive)
        if _is_batch([array], given)
    )


def _is_batch(arrays: Sequence[Array], given: Array) -> bool:
    """Return whether an element may be a batch of the same dataset as the input of a layer.

    At most `MAX_ROWS` rows of the input are kept.
    """
    if not arrays or arrays[0].ndim < 2 or given.ndim < 2:
        return False
    rows = min(len(arrays[0]), MAX_ROWS)
    return rows == len(given) and math.prod(arrays[0].shape[1:]) == math.prod(given.shape[1:])


def _arrays(element: Any) -> list[Array]:
    leaves = tf.nest.flatten(element)
    eager = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor) and hasattr(leaf, "numpy")]
    plain = [leaf for leaf in eager if leaf.dtype.is_floating or leaf.dtype.is_integer]
    sizes = [math.prod(leaf.shape) * leaf.dtype.size for leaf in plain]
    return [np.asarray(leaf.numpy()) for leaf in plain] if sum(sizes) <= MOST_BYTES else []


def _digest(arrays: Sequence[Array]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        thin = array[:: max(1, -(-array.nbytes // COMPARED_BYTES))] if array.ndim else array
        digest.update(np.ascontiguousarray(thin).tobytes())
    return digest.digest()
