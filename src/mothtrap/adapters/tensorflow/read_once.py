"""Values that functions under `tf.function` read while they are traced."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mothtrap.core.adapters import Job
from mothtrap.tracing.describe.values_read_once import ReadOnce

MOST_BYTES: Final = 1 << 28
"""Maximum bytes of an array; larger arrays are not compared."""


class ProgramsRead:
    """Compares the values that functions read while they were traced with later values.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._read: weakref.WeakKeyDictionary[Any, ReadOnce | None] = weakref.WeakKeyDictionary()

    def began(
        self, function: Any, parts: Callable[[], Sequence[tuple[Any, object]]], given: Any = ()
    ) -> None:
        """Record the state before the first call to a function.

        Args:
            function: a `tf.function`, or a function that only calls one.
            parts: returns the functions of the script that it traces, with their objects.
            given: its arguments, by position and by name.
        """
        if function in self._read:
            return
        is_eager = tf.config.functions_run_eagerly()
        objects = [one for one in tf.nest.flatten(given) if hasattr(one, "__dict__")]
        found = None if is_eager else ReadOnce(self._job, parts(), arrays_in, objects)
        self._read[function] = found

    def ended(self, function: Any) -> None:
        """Count a call to a function, which may have traced it."""
        reading = self._read.get(function)
        if reading is None:
            return
        count = getattr(function, "experimental_get_tracing_count", None)
        traces = int(count()) if count is not None else 1  # Keras traces in the first call
        if traces == reading.traces:
            reading.called()
            return
        reading.traces = traces
        if not reading.traced():
            self._read[function] = None


def arrays_in(value: Any) -> Sequence[npt.NDArray[Any]]:
    """Return an array of NumPy or TensorFlow; empty for anything else, such as a variable."""
    if isinstance(value, np.ndarray):
        found = value
    elif isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        if "CPU" not in str(value.device):
            return ()
        found = value.numpy()
    else:
        return ()
    is_plain = isinstance(found, np.ndarray) and found.dtype.kind in "fiub"
    return (found,) if is_plain and found.nbytes <= MOST_BYTES else ()
