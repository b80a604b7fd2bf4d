"""Batches that a train function takes from an iterator, read when they enter its program."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.tensorflow import internals
from mothtrap.adapters.tensorflow.probes.cells import Cell
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.source import frames

MAX_EARLIER: Final = 16
"""Maximum number of tensors of earlier elements that are known. Chosen by hand."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnElement:
    """A dataset element taken by a loop, with the line that took it."""

    element: Any
    location: str | None
    iterator: weakref.ref[Any]


class Drawn(threading.local):
    """The dataset elements that a thread's loop has taken since its last step began.

    Attributes:
        opened: the dataset of the latest iterator, including iterators inside `fit`.
        earlier: tensors of the elements after which loops took one from another iterator, latest
            last. Tensors that the script no longer has are gone.
    """

    def __init__(self) -> None:
        self.earlier: deque[weakref.ref[Any]] = deque(maxlen=MAX_EARLIER)
        self._latest: DrawnElement | None = None
        self._count = 0
        self.opened: Any = None

    def took(self, iterator: Any, element: Any, *_: object) -> None:
        """Record an element taken by Python code."""
        before = self._latest
        if before is not None and before.iterator() is not iterator:
            leaves = tf.nest.flatten(before.element)
            self.earlier += [weakref.ref(leaf) for leaf in leaves if isinstance(leaf, tf.Tensor)]
        self._latest = DrawnElement(element, frames.user_location(), weakref.ref(iterator))
        self._count += 1

    def opens(self, _: Any, args: Any, kwargs: Any) -> None:
        """Record a dataset for which an iterator is created."""
        self.opened = args[0] if args else kwargs.get("dataset")
        if self.opened is not None:
            _OPENED.append(weakref.ref(self.opened))

    def take(self) -> DrawnElement | None:
        """Return the only new element; None if there are none or several."""
        count, self._count = self._count, 0
        return self._latest if count == 1 else None

    @property
    def latest(self) -> DrawnElement | None:
        """The latest element; None if no element was drawn."""
        return self._latest

    @property
    def data(self) -> Any:
        """Dataset of the latest element; None if no element was drawn."""
        iterator = self._latest.iterator() if self._latest is not None else None
        return internals.data_of(iterator) if iterator is not None else None


DRAWN: Final = Drawn()
_OPENED: Final[deque[weakref.ref[Any]]] = deque(maxlen=8)


def opened_data() -> list[Any]:
    """Return the datasets recently iterated in any thread, latest first."""
    alive = [each() for each in reversed(_OPENED)]
    return [data for data in alive if data is not None]


SEVERAL = "one call runs several steps"
REPLICAS = "the step runs on several replicas"
FORM = "it contains more than plain tensors"


class Batches:
    """Stores the latest batch of the running train function.

    The program copies its batch to cells when it takes it from the iterator, outside the part
    compiled by XLA, so no batch is drawn from the pipeline a second time.

    Attributes:
        wanted: a train function is running, so the output of an iterator is its batch.
        why: reason why no batch was observed in the latest call.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.why = ""
        self._which: Cell | None = None
        self._programs: list[tuple[Any, Any, list[Cell]]] = []
        self._eager: Any = None

    def install(self, replacements: Replacements) -> None:
        """Replace the function that returns the next element of an iterator."""
        replacements.around(internals.iterator_type(), "get_next", None, self._took)
        replacements.around(internals.iterator_type(), "__next__", None, DRAWN.took)
        replacements.around(internals.iterator_type(), "_create_iterator", DRAWN.opens, None)

    def begin(self, *, wanted: bool) -> None:
        """Record the call to a train function whose program cannot store its batch, if `wanted`."""
        self.wanted, self.why, self._eager = wanted, "", None
        if not wanted:
            return
        if self._which is None:
            self._which = Cell(tf.int64)
        self._which.write(tf.constant(-1, tf.int64))

    def end(self) -> None:
        """Record that the call returned."""
        self.wanted = False

    def passing(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return an iterable of the same batches that stores the latest one."""
        for batch in batches:
            if self.wanted:
                self._eager = batch
            yield batch

    def _took(self, _: Any, batch: Any, *__: object) -> None:
        if not self.wanted:
            return
        if tf.executing_eagerly():
            self._eager = batch
            return
        graph = tf.compat.v1.get_default_graph()
        leaves = tf.nest.flatten(batch)
        if self._which is None or not internals.is_function_graph(graph):
            return
        if not all(isinstance(leaf, tf.Tensor) for leaf in leaves):
            return
        cells = [Cell(leaf.dtype) for leaf in leaves]
        for cell, leaf in zip(cells, leaves, strict=True):
            cell.write(leaf)
        self._which.write(tf.constant(len(self._programs), tf.int64))
        self._programs.append((graph, batch, cells))

    def latest(self) -> Any:
        """Return the batch of the completed call as arrays; None: see `why`."""
        if self._eager is not None:
            leaves = tf.nest.flatten(self._eager)
            if all(leaf is None or _is_plain(leaf) for leaf in leaves):
                arrays = [None if leaf is None else tf.convert_to_tensor(leaf) for leaf in leaves]
                found = [None if leaf is None else leaf.numpy() for leaf in arrays]
                return tf.nest.pack_sequence_as(self._eager, found)
            self.why = FORM
            return None
        number = int(self._which.read()) if self._which is not None else -1
        if number < 0:
            several = tf.distribute.get_strategy().num_replicas_in_sync > 1
            self.why = REPLICAS if several else FORM
            return None
        _, structure, cells = self._programs[number]
        return tf.nest.pack_sequence_as(structure, [cell.read() for cell in cells])

    def program(self) -> Any:
        """Return the program that used the latest batch; None if it ran eagerly."""
        number = int(self._which.read()) if self._which is not None else -1
        return self._programs[number][0] if number >= 0 else None


def _is_plain(leaf: Any) -> bool:
    return tf.is_tensor(leaf) or hasattr(leaf, "__array__")


def stateful_randomness(graph: Any) -> tuple[str, ...]:
    """Return the operations of a program with unreadable random state, by type."""
    definition = graph.as_graph_def(add_shapes=False)
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return tuple(sorted({node.op for node in nodes} & STATEFUL))


STATEFUL = frozenset(
    {
        *("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt"),
        *("RandomGamma", "RandomPoissonV2", "RandomShuffle", "Multinomial"),
        *("ParameterizedTruncatedNormal", "StatefulUniform", "StatefulStandardNormalV2"),
    }
)
"""Random operations whose state is stored in the operation or on the device."""
