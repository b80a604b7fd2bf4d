"""State and batch of a step under `fit`, which its program keeps if the step is not finite.

Keeping every variable before every step would copy all of them, because an update happens in place
only if nothing else refers to the value. So the program itself checks the loss and the gradients
before the optimizer applies them. It copies the initial state of the step if they are not finite,
or if the host requested this step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import keras
import tensorflow as tf

from mothtrap.adapters.keras.state import Held, read, size_of, variables_of
from mothtrap.adapters.tensorflow.probes.cells import Cell, Gate
from mothtrap.adapters.tensorflow.probes.probes import Look

ASKED: Final = Gate()
"""Gate that is open in steps that are kept regardless of their result."""
LARGE_BYTES: Final = 1 << 28
"""Size of variables, in bytes, above which they are not kept before each step."""
LARGE: Final = (
    f"the variables take more than {LARGE_BYTES >> 20} MB, too much to keep in a custom "
    "`train_step` or in a program compiled by XLA"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptCall:
    """The first step of a call that was not finite, or requested.

    Attributes:
        place: position of the step among the steps of the call, from 0.
        held: state before the call.
        batch: arrays, in the form passed to `train_step`.
        losses: the computed losses.
    """

    place: int
    held: Held
    batch: Any
    losses: tuple[float, ...]


class Keeper:
    """Stores steps of one traced program.

    Args:
        look: observations of the program.
        model: model whose step it makes.
        data: arguments of `train_step`, as tensors of the program.
        own_step: the `train_step` is user-defined, and may change any variable at any time.

    Attributes:
        why: reason why the state is not kept.
        graph: graph of the program.
    """

    def __init__(self, look: Look, model: Any, data: Any, *, own_step: bool) -> None:
        self._look, self._model, self._data = look, model, data
        self.graph = tf.compat.v1.get_default_graph()
        self._variables = variables_of(model)
        applied_late = {id(variable) for variable in model.trainable_variables}
        own = getattr(model, "optimizer", None)
        applied_late |= {id(variable) for variable in own.variables} if own else set()
        early = [v for v in self._variables if own_step or id(v) not in applied_late]
        self.why = LARGE if own_step and size_of(early) > LARGE_BYTES else ""
        if not all(leaf is None or tf.is_tensor(leaf) for leaf in tf.nest.flatten(data)):
            self.why = "the batch contains more than plain tensors"
        self._early: dict[int, Any] = {}
        if self.why:
            return
        self._early = {id(variable): read(variable) for variable in early}
        self._state = [Cell(_type_of(variable)) for variable in self._variables]
        self._batch = [None if x is None else Cell(x.dtype) for x in tf.nest.flatten(data)]
        self._losses: list[Cell] = []
        self._armed, self._kept = Cell(tf.bool), Cell(tf.int64)
        with tf.init_scope():
            self._armed.write(tf.constant(True))
            self._kept.write(tf.constant(-1, tf.int64))
        self._seen = -1

    def applying(self, sound: Any) -> None:
        """Add operations before the optimizer that store the state before a bad step."""
        if self.why or tf.compat.v1.get_default_graph() is not self.graph:
            return
        losses = losses_in(self._look)
        self._losses += [Cell(loss.dtype) for loss in losses[len(self._losses) :]]
        keeps = tf.logical_and(wanted(sound), self._armed.tensor())

        def keep() -> None:
            for variable, cell in zip(self._variables, self._state, strict=True):
                early = self._early.get(id(variable))
                cell.write(read(variable) if early is None else early)
            for place, leaf in zip(self._batch, tf.nest.flatten(self._data), strict=True):
                if place is not None:
                    place.write(leaf)
            for cell, loss in zip(self._losses, losses, strict=True):
                cell.write(loss)
            self._kept.write(self._look.counter.tensor())
            self._armed.write(tf.constant(False))

        tf.cond(keeps, keep, lambda: None)

    def take(self, before: int) -> KeptCall | None:
        """Return the value stored since the last call, and allow storing the next one.

        Args:
            before: runs of the program before the call.
        """
        if self.why:
            return None
        run = int(self._kept.read())
        if run == self._seen:
            return None
        self._seen = run
        held = Held(self._model, self._variables, [cell.tensor() for cell in self._state])
        leaves = [None if cell is None else cell.read() for cell in self._batch]
        losses = tuple(float(cell.read()) for cell in self._losses)
        for cell in (*self._state, *self._batch):
            if cell is not None:
                cell.empty()
        self._armed.write(tf.constant(True))
        batch = tf.nest.pack_sequence_as(self._data, leaves)
        return KeptCall(place=max(0, run - before - 1), held=held, batch=batch, losses=losses)


def losses_in(look: Look) -> list[Any]:
    """Return the losses computed so far in the program being traced."""
    graph = tf.compat.v1.get_default_graph()
    found = [target.tensor for target in look.targets]
    return [loss for loss in found if loss is not None and loss.graph is graph]


def wanted(sound: Any) -> Any:
    """Return, in a program, whether to store a step: it is bad, or was requested."""
    return tf.logical_or(tf.logical_not(sound), ASKED.tensor())


def is_sound(squares: Any, losses: Sequence[Any], limit: float) -> Any:
    """Return, in a program, whether losses and gradients are finite and not too large.

    Args:
        squares: half the sum of squares of each gradient, shape (T,); None if they may overflow.
        losses: scalars.
        limit: limit on the norm of all gradients; 0 = none.
    """
    parts = [tf.cast(loss, tf.float32) for loss in losses]
    if squares is not None:
        parts.append(tf.reduce_sum(squares))
    finite = tf.math.is_finite(tf.add_n(parts)) if parts else tf.constant(True)
    if squares is None or not limit:
        return finite
    norm = tf.sqrt(2 * tf.reduce_sum(squares))
    return tf.logical_and(finite, norm < min(limit, tf.float32.max))


def _type_of(variable: Any) -> Any:
    return tf.as_dtype(keras.backend.standardize_dtype(variable.dtype))
