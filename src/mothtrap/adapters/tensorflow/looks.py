"""Tensors of a step that stay readable when it is over, of programs and of eager loops.

A probe in a traced program writes a tensor into a cell, which takes the tensor's memory
over: nothing is computed from it in the program. Of what layers give only some rows are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mothtrap.adapters.tensorflow import names

MAX_ROWS: Final = 64
"""Rows of a batch that are kept of what a layer takes and gives."""
MAX_PROGRAMS: Final = 16
"""Traces of programs that are remembered, the latest ones."""
Array = npt.NDArray[Any]


class Cell:
    """A place in memory for one tensor of any shape, which a program can write to.

    It is made of operations and not a `tf.Variable`, which a function may create in its first
    trace only.

    Args:
        dtype: of the tensor.
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
        """Let the cell hold a tensor."""
        tf.raw_ops.AssignVariableOp(resource=self._handle, value=tensor)

    def count(self) -> None:
        """Add 1 to the number that the cell holds."""
        tf.raw_ops.AssignAddVariableOp(
            resource=self._handle, value=tf.constant(1, dtype=self._dtype)
        )

    def read(self) -> Array:
        """Return the value on the host."""
        value = tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self._dtype)
        return np.asarray(value.numpy())


class Slot:
    """One tensor: of an eager step itself, of a program a cell that holds its value.

    Args:
        tensor: of a program or eager.
        rows: how many of its first ones are kept; None = all.
    """

    __slots__ = ("_cell", "_held", "dtype", "shape")

    def __init__(self, tensor: Any, *, rows: int | None = None) -> None:
        self.dtype = tensor.dtype.name
        self.shape: tuple[int, ...] = tuple(size or 0 for size in tensor.shape)
        self._held: Any = None
        self._cell: Cell | None = None
        kept = tensor
        if rows is not None and tensor.shape.rank:
            kept = tf.gather(tensor, tf.range(tf.minimum(rows, tf.shape(tensor)[0])))
        if tf.executing_eagerly():
            self._held = kept
        else:
            self._cell = Cell(tensor.dtype)
            self._cell.write(kept)

    @property
    def tensor(self) -> Any:
        """Return the tensor itself, of an eager step; None of a program's."""
        return self._held

    def read(self) -> Array:
        """Return the value of the latest step on the host."""
        if self._cell is not None:
            return self._cell.read()
        return np.asarray(self._held.numpy())


@dataclass(slots=True, eq=False)
class LayerCall:
    """A layer that was called: some rows of what it took and gave; None = no float tensor.

    `training` is the flag that it was called with, `data`: no layer that is trained made what
    it took.
    """

    layer: Any
    root: Any
    training: bool | None
    given: Slot | None
    gave: Slot | None
    data: bool
    last: bool = False


@dataclass(slots=True, eq=False)
class LossCall:
    """A loss that was computed; `chain` as in the fact of this name.

    `target` and `prediction` are None where they cannot be seen; `classes` is the size of the
    last axis of the prediction.
    """

    loss: Any
    target: Slot | None
    prediction: Slot | None
    chain: tuple[str, ...]
    location: str | None
    classes: int | None = None


@dataclass(slots=True, eq=False)
class Target:
    """Loss: the value that a tape differentiates with respect to variables.

    `scaled` by a loss scale: `value` is what was scaled. `broadcast`: the shape of a difference
    of every prediction and every target.
    """

    value: Slot
    location: str | None
    scaled: bool
    broadcast: Slot | None = None


@dataclass(slots=True, eq=False)
class Applied:
    """Gradients, in the order of the variables, that an optimizer was given; None = none.

    `slots` is None where they cannot be seen, and `scale` is where a loss scale is divided out.
    """

    optimizer: Any
    variables: list[Any]
    gradients: list[Slot | None] | None
    scaled: bool
    missing: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Look:
    """Everything that one traced program, or one eager step, shows.

    `counter` counts how often the program ran; None of an eager step. `why`: nothing inside can
    be seen, for this reason. `plain`: variables that are none of Keras, with their gradients.
    `made` says of tensors, by identity, where they come from; `held` keeps those alive.
    """

    counter: Any = None
    ran: int = 0
    why: str = ""
    layers: list[LayerCall] = field(default_factory=list)
    losses: list[LossCall] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    made: dict[int, Any] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)
    plain: list[tuple[Any, Slot]] = field(default_factory=list)

    def has_run(self) -> bool:
        """Return whether the program ran since this was last asked."""
        if self.counter is None:
            return False
        count = int(self.counter.read())
        ran, self.ran = count != self.ran, count
        return ran

    def forget(self) -> None:
        """Let go of what is needed only while the program is traced."""
        self.made.clear()
        self.held.clear()


class Looks(threading.local):
    """The programs of a thread, and its eager step in progress.

    Attributes:
        eager: what the eager step in progress shows.
        tapes: gradient tapes that are recording.
    """

    def __init__(self) -> None:
        self.eager = Look()
        self.tapes = 0
        self._programs: OrderedDict[int, tuple[Any, Look]] = OrderedDict()

    def begin(self) -> None:
        """Forget everything: an adapter begins to look."""
        self.eager, self.tapes = Look(), 0
        self._programs.clear()

    def current(self) -> Look | None:
        """Return the look of the program that is being traced, else that of the eager step.

        None within a branch or loop of a program, and in a function that maps a data set.
        """
        if tf.executing_eagerly():
            return self.eager
        graph = tf.compat.v1.get_default_graph()
        found = self._programs.get(id(graph))
        if found is not None and found[0] is graph:
            return found[1]
        if not names.is_function_graph(graph):
            return None
        look = Look(why=_obstacle(graph))
        if not look.why:
            look.counter = Cell(tf.int64)
            with tf.init_scope():
                look.counter.write(tf.constant(0, tf.int64))
            look.counter.count()
        self._programs[id(graph)] = graph, look
        while len(self._programs) > MAX_PROGRAMS:
            self._programs.popitem(last=False)
        return look

    def take(self, *, programs_only: bool = False) -> list[Look]:
        """Return what ran since the last call: programs, and the eager step, which is over."""
        found = [look for _, look in self._programs.values() if look.has_run()]
        for look in found:
            look.forget()
        if programs_only:
            return found
        eager, self.eager = self.eager, Look()
        if eager.applied or eager.targets:
            found.append(eager)
        return found

    def latest(self) -> Look:
        """Return the look of the program that was traced last, else that of the eager step."""
        return next((look for _, look in reversed(self._programs.values())), self.eager)

    def hidden(self) -> list[Look]:
        """Return programs whose inside is hidden."""
        return [look for _, look in self._programs.values() if look.why]


def _obstacle(graph: Any) -> str:
    """Why nothing inside of a program can be seen; '' where it can."""
    if names.is_in_xla(graph):
        return "compiled by XLA (jit_compile=True), where a look could change the results"
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        return "the step runs on several replicas"
    return ""
