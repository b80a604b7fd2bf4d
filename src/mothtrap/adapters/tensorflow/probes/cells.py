"""Memory cells that TensorFlow programs write to, and switches that they read."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Array = npt.NDArray[Any]


class Cell:
    """Memory for one tensor of any shape, which a program can write.

    It consists of operations instead of a `tf.Variable`, which a function may create only in its
    first trace.

    Args:
        dtype: dtype of the tensor.
    """

    __slots__ = ("_dtype", "_handle")
    _made = 0

    def __init__(self, dtype: Any) -> None:
        Cell._made += 1
        self._dtype = dtype
        with tf.init_scope():
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=dtype, shape=tf.TensorShape(None), shared_name=f"mothtrap_{Cell._made}"
            )

    def write(self, tensor: Any) -> None:
        """Store a tensor in the cell."""
        tf.raw_ops.AssignVariableOp(resource=self._handle, value=tensor)

    def count(self) -> None:
        """Add 1 to the number in the cell."""
        tf.raw_ops.AssignAddVariableOp(
            resource=self._handle, value=tf.constant(1, dtype=self._dtype)
        )

    def tensor(self) -> Any:
        """Return the value, in a program or eagerly."""
        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self._dtype)

    def read(self) -> Array:
        """Return the value on the host."""
        return np.asarray(self.tensor().numpy())

    def empty(self) -> None:
        """Release the memory of the cell."""
        self.write(tf.zeros((0,), self._dtype))


class Gate:
    """A switch set by the host and read by programs; created on first use."""

    def __init__(self) -> None:
        self._cell: Cell | None = None
        self._open = False

    def set(self, is_open: bool) -> None:
        """Open or close the gate before a program is called."""
        if is_open != self._open:
            self._open = is_open
            if self._cell is not None:
                self._cell.write(tf.constant(is_open))

    def tensor(self) -> Any:
        """Return, in a program, whether the gate is open."""
        if self._cell is None:
            self._cell = Cell(tf.bool)
            with tf.init_scope():
                self._cell.write(tf.constant(self._open))
        return self._cell.tensor()


LOOKING: Final = Gate()
"""Gate that is open in inspected steps."""
