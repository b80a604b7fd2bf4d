"""Tensors of programs and eager loops that remain readable after the step.

A probe in a traced program writes a tensor into a cell, which takes over the tensor's memory. Only
some rows of large tensors are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow.probes.cells import Array, Cell

MAX_ROWS: Final = 64
"""Maximum number of stored rows of the inputs and outputs of a layer."""
LOSS_ROWS: Final = 256
"""Maximum number of stored rows of the targets and predictions of a loss."""


class Gate(Protocol):
    """A record whose pending tensors are written while the host inspects a step."""

    waiting: list[tuple[Slot, Any]]


class Slot:
    """A tensor of an eager step, or a cell with the value of a program's tensor.

    Args:
        tensor: tensor of a program or eager.
        rows: number of its first rows to keep; None = all.
        behind: observations that write it, if this happens behind a gate.
        reduced: function that reduces the tensor before it is stored; None = store the tensor.
    """

    __slots__ = ("_cell", "_held", "_reduced", "_rows", "dtype", "shape", "written")

    def __init__(
        self,
        tensor: Any,
        *,
        rows: int | None = None,
        behind: Gate | None = None,
        reduced: Callable[[Any], Any] | None = None,
    ) -> None:
        self.dtype = tensor.dtype.name
        self.shape: tuple[int, ...] = tuple(size or 0 for size in tensor.shape)
        self._rows = rows if tensor.shape.rank else None
        self._reduced = reduced
        self._held: Any = None
        self._cell: Cell | None = None
        self.written = True
        if tf.executing_eagerly():
            self._held = self._kept(tensor)
            return
        self._cell = Cell(tensor.dtype)
        if behind is None:
            self.write(tensor)
        else:
            self.written = False
            behind.waiting.append((self, tensor))

    def write(self, tensor: Any) -> None:
        """Add an operation that writes the tensor to the traced program."""
        assert self._cell is not None
        self._cell.write(self._kept(tensor))
        self.written = True

    def _kept(self, tensor: Any) -> Any:
        if self._reduced is not None:
            return self._reduced(tensor)
        if self._rows is None:
            return tensor
        return tf.gather(tensor, tf.range(tf.minimum(self._rows, tf.shape(tensor)[0])))

    @property
    def tensor(self) -> Any:
        """Return the tensor of an eager step; None for a program."""
        return self._held

    def read(self) -> Array:
        """Return the value at the latest step on the host."""
        if self._cell is not None:
            return self._cell.read()
        return np.asarray(self._held.numpy())
