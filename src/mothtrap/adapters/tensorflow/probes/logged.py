"""Values that a script logs inside a program, read after a call of the program returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow import internals
from mothtrap.adapters.tensorflow.probes.cells import Cell
from mothtrap.core.adapters import Job

IN_XLA: Final = (
    "mothtrap: log: {!r} is logged inside a program that XLA compiles, which can change the last "
    "bits of the training"
)


@dataclass(slots=True, eq=False)
class _Entry:
    value: Cell
    runs: Cell
    take: Callable[[Any], None]
    ran: int = 0


class GraphLog:
    """Values logged in traced programs, separate for each program, replica and call.

    They exist until the process ends, like the programs that write them.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._job: Job | None = None
        self._end: Callable[[], None] = lambda: None
        self._reported: set[str] = set()

    @property
    def is_written(self) -> bool:
        """Return whether a program logs values."""
        return bool(self._entries)

    def join(self, job: Job) -> None:
        """Start recording values logged in programs."""
        self._job, self._end = job, job.defer(self.defers)

    def leave(self) -> None:
        """Stop recording."""
        self._end()
        self._entries.clear()

    def defers(self, name: str, value: Any, take: Callable[[Any], None]) -> bool:
        """Record a tensor of a program; return False for other values.

        Args:
            name: its log name.
            value: value from the script.
            take: receives each of its values, as an array.
        """
        if not tf.is_tensor(value) or tf.executing_eagerly():
            return False
        graph = tf.compat.v1.get_default_graph()
        if self._job is not None and internals.is_in_xla(graph) and name not in self._reported:
            self._reported.add(name)
            self._job.say(IN_XLA.format(name))
        entry = _Entry(Cell(value.dtype), Cell(tf.int64), take)
        with tf.init_scope():
            entry.runs.write(tf.constant(0, tf.int64))
        entry.value.write(value)
        entry.runs.count()
        self._entries.append(entry)
        return True

    def deliver(self) -> None:
        """Pass on the latest values of all programs that ran since the last call."""
        for entry in self._entries:
            runs = int(entry.runs.read())
            if runs != entry.ran:
                entry.ran = runs
                entry.take(np.asarray(entry.value.read()))


GRAPH_LOG: Final = GraphLog()
"""Log of this process; adapters on TensorFlow share it."""
