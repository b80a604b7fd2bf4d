"""Records of traced programs and eager steps: layers, models, losses, gradients.

Most tensors in them are slots (`slots.py`). A program writes its slots behind a gate, which the
host opens for the steps to inspect.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow import internals
from mothtrap.adapters.tensorflow.probes.cells import LOOKING, Array, Cell
from mothtrap.adapters.tensorflow.probes.loss_records import LossRecord
from mothtrap.adapters.tensorflow.probes.raw_records import RawLoss, WrittenLoss
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.adapters.tensorflow.probes.tape_targets import Target
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

MAX_PROGRAMS: Final = 16
"""Maximum number of stored program traces, the latest ones."""
LOOKS_OF: Final = "_mothtrap_looks"
"""Attribute of a function that contains the records of its programs."""
ALONE: Final = 8
"""Consecutive runs of the same program after which only this program is read."""


@dataclass(slots=True, eq=False)
class AddedMask:
    """A floating-point tensor without weights that is added to scores before a softmax."""

    values: Slot
    location: str | None = None


@dataclass(slots=True, eq=False)
class LayerCall:
    """A layer call with some rows of its input and output; None = not sampled.

    `training` is the flag of the call; `data`: no trained layer produced its input. `later`: its
    input is an argument of the program, but trained layers were called before. `called_at`: the
    line that calls `root`. `mean_square`: mean square of its kernel in the call; None if unknown.
    """

    layer: Any
    root: Any
    training: bool | None
    given: Slot | None
    gave: Slot | None
    data: bool
    later: bool = False
    last: bool = False
    called_at: str | None = None
    mean_square: Slot | None = None

    @property
    def is_written(self) -> bool:
        """Return whether a program writes both."""
        slots = (self.given, self.gave, self.mean_square)
        return all(slot is None or slot.written for slot in slots)


@dataclass(slots=True, eq=False)
class ModelCall:
    """A model call from outside any other model, with some rows of its input.

    `training` is the flag of the call; `shape` is the shape of its output, None for several
    outputs; `location` is the line of the call; `gave` is its output in an eager evaluation.
    """

    model: Any
    training: bool | None
    given: Slot | None
    shape: tuple[int, ...] | None
    location: str | None
    gave: Any = None

    @property
    def is_written(self) -> bool:
        """Return whether a program writes the input."""
        return self.given is None or self.given.written


@dataclass(slots=True, eq=False)
class Applied:
    """Gradients passed to an optimizer, in the order of the variables; None = missing.

    `gradients` is None if they are not visible; gradients of a program are written in full steps,
    and if one of them is not finite. `missing`: variables without a gradient, including variables
    that the loop omitted. `squares`: for a program, half the sum of squares of each existing
    gradient, in every step; `found`: the values of `squares` in the latest step. `scaled`: the
    gradients are multiplied by a loss scale. `elsewhere`: a variable whose gradient the optimizer
    applies to another variable; None if there is none, or if this is unknown.
    """

    optimizer: Any
    variables: list[Any]
    gradients: list[Slot | None] | None
    scaled: bool
    missing: tuple[Any, ...] = ()
    squares: Slot | None = None
    found: Array | None = None
    elsewhere: weakref.ref[Any] | None = None

    def pairs(self) -> list[tuple[Any, Slot]]:
        """Return the variables that have gradients, with the gradients."""
        slots = self.gradients or [None] * len(self.variables)
        every = zip(self.variables, slots, strict=True)
        return [(variable, slot) for variable, slot in every if slot is not None]

    def half_squares(self) -> Array | None:
        """Return `squares` at the latest step if all are finite; otherwise None."""
        if self.squares is None:
            return None
        if self.found is None:
            self.found = self.squares.read()
        return self.found if np.isfinite(self.found).all() else None


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A tensor requested by a collection, with the location of its value."""

    info: TensorInfo
    slot: Slot


@dataclass(slots=True, eq=False, weakref_slot=True)
class Look:
    """All observations in one traced program or eager step.

    `counter` counts the runs of the program; None for an eager step. `why`: reason why nothing
    inside is visible. `plain`: variables that do not belong to Keras, with their gradients.
    `unreached`: variables whose gradient was requested but does not exist. `made` maps tensors, by
    identity, to their origin; `held` keeps these tensors alive. `waiting` are tensors to write
    behind the gate. `keeper` writes the state of a step of `fit` (see `adapters.keras.keeping`).
    `sources`: Keras variables whose gradient was requested, with the gradient; they are also in
    `plain` if the script itself assigns to one (`by_hand`).
    `raw`: losses of `tf.nn` that the script calls itself. `by_script`: those that it writes itself.
    `evaluated`: losses that no tape records, with their mean and number of rows.
    `watched`: matrices on which a loss depends, but whose gradients were not requested.
    `sights`: which positions layers can see along their sequences, with the line that calls each,
    and whether its sequence is made of a later argument, as in a decoder.
    `masks`: tensors that are added to scores before a softmax.
    `asked`: tensors that collections request. `evaluates`: the mode, and the model that is called
    outside of any tape.
    `gradients`: gradients of a tape, with their variables, as long as they are known.
    `in_branches`: gradients passed to an optimizer in a branch, which a script may skip.
    `scalars`: scalars of an eager tape, with the line where it ended; one of them is the loss.
    `difference`: the latest difference, in an eager step, of every prediction and every target, and
        its line.
    """

    counter: Any = None
    ran: int = 0
    why: str = ""
    layers: list[LayerCall] = field(default_factory=list)
    models: list[ModelCall] = field(default_factory=list)
    losses: list[LossRecord] = field(default_factory=list)
    raw: list[RawLoss] = field(default_factory=list)
    by_script: list[WrittenLoss] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    made: dict[int, Any] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)
    plain: list[tuple[Any, Slot]] = field(default_factory=list)
    unreached: list[Any] = field(default_factory=list)
    waiting: list[tuple[Slot, Any]] = field(default_factory=list)
    keeper: Any = None
    sources: list[tuple[Any, Any]] = field(default_factory=list)
    evaluated: list[tuple[LossRecord | RawLoss, Slot]] = field(default_factory=list)
    watched: list[weakref.ref[Any]] = field(default_factory=list)
    sights: list[tuple[str, str | None, bool]] = field(default_factory=list)
    masks: list[AddedMask] = field(default_factory=list)
    by_hand: bool = False
    difference: tuple[Any, str | None] | None = None
    asked: list[Asked] = field(default_factory=list)
    evaluates: tuple[Mode, Any] | None = None
    gradients: list[tuple[Any, Any]] = field(default_factory=list)
    scalars: list[tuple[Any, str | None]] = field(default_factory=list)
    in_branches: list[Applied] = field(default_factory=list)

    @property
    def loss_is_whole(self) -> bool:
        """Return whether a tape differentiates the only loss itself, or its negative."""
        computed = self.losses[0].computed
        if computed is None or len(self.targets) != 1:
            return True  # unknown
        loss, whole = float(computed.read()), float(self.targets[0].value.read())
        return math.isclose(abs(loss), abs(whole), rel_tol=1e-3, abs_tol=1e-6)

    def add_target(self, target: Target) -> None:
        """Add a loss, unless a persistent tape has already added it."""
        for known in self.targets:
            if known.original is not None and known.original is target.original:
                known.sources |= target.sources
                return
        self.targets.append(target)

    def assigned(self, variable: Any) -> None:
        """Record an assignment to a variable; after its gradient, it is an update."""
        if self.by_hand or self.why or not any(one is variable for one, _ in self.sources):
            return
        self.by_hand = True
        for source, gradient in self.sources:
            self.plain.append((source, Slot(gradient, behind=self)))
        self.flush()

    def flush(self, also: Any = None) -> None:
        """Let the program write pending data if the gate is open or `also` is true."""
        waiting, self.waiting = self.waiting, []
        graph = tf.compat.v1.get_default_graph()
        # an eager tensor from outside the program is a constant in it
        here = [(s, one) for s, one in waiting if getattr(one, "graph", graph) is graph]
        if not here:
            return

        def write() -> None:
            for slot, tensor in here:
                slot.write(tensor)

        asked = LOOKING.tensor()
        tf.cond(asked if also is None else tf.logical_or(asked, also), write, lambda: None)

    def has_run(self) -> bool:
        """Return whether the program ran since the last call."""
        if self.counter is None:
            return False
        count = int(self.counter.read())
        ran, self.ran = count != self.ran, count
        for each in (*self.applied, *self.in_branches):
            each.found = None
        return ran

    def forget(self) -> None:
        """Release data that is needed only during tracing."""
        if not self.made and not self.waiting and not self.gradients:
            return
        self.made.clear()
        self.held.clear()
        self.sources.clear()
        self.gradients.clear()
        for target in self.targets:
            target.tensor = target.original = None
        if self.waiting:  # in a graph inside this one, which nothing flushed
            self.waiting.clear()
            self.layers = [c for c in self.layers if c.is_written]
            self.losses = [c for c in self.losses if c.is_written]
            self.raw = [c for c in self.raw if c.is_written]
            self.by_script = [c for c in self.by_script if c.is_written]
            self.models = [c for c in self.models if c.is_written]
            self.asked = [each for each in self.asked if each.slot.written]
            self.masks = [each for each in self.masks if each.values.written]
            for target in self.targets:
                if target.terms is not None and not target.terms.is_written:
                    target.terms = None


class Looks(threading.local):
    """The programs of a thread, and its eager step in progress.

    Attributes:
        eager: observations of the eager step in progress.
        tapes: gradient tapes that are recording.
        calls: calls of programs since the last query.
        owner: function being called, whose programs may be traced.
        given: arguments of this function, as `(args, kwargs)`.
        optimized: identities of variables passed to an optimizer.
    """

    def __init__(self) -> None:
        self.eager = Look()
        self.tapes = self.calls = 0
        self.owner: Any = None
        self.given: Any = None
        self.optimized: set[int] = set()
        self._alone: weakref.ref[Look] | None = None
        self._times = 0
        self._programs: list[tuple[weakref.ref[Any], weakref.ref[Look]]] = []  # graph and record

    def begin(self) -> None:
        """Reset all records, because an adapter starts observing."""
        self.eager, self.tapes = Look(), 0
        self._programs.clear()

    def current(self) -> Look | None:
        """Return the record of the program being traced, or else of the eager step.

        None within a branch or loop of a program, and in a function that maps a dataset.
        """
        if tf.executing_eagerly():
            return self.eager
        graph = tf.compat.v1.get_default_graph()
        known: list[Look] = [look for one, look in self._live() if one is graph]
        if known:
            return known[-1]
        if not internals.is_function_graph(graph):
            return None
        look = Look(why=_obstacle(graph))
        if not look.why:
            look.counter = Cell(tf.int64)
            with tf.init_scope():
                look.counter.write(tf.constant(0, tf.int64))
            look.counter.count()
        self._keep(graph, look)
        return look

    def around(self) -> tuple[Any, Look] | None:
        """Return the program around the branch or loop being traced, with its record."""
        graph = tf.compat.v1.get_default_graph()
        while graph is not None and not internals.is_function_graph(graph):
            graph = getattr(graph, "outer_graph", None)
        return next((pair for pair in self._live() if pair[0] is graph), None)

    def graphs_of(self, looks: Sequence[Look]) -> list[Any]:
        """Return the graphs of the programs of some records."""
        return [graph for graph, look in self._live() if any(look is one for one in looks)]

    def _keep(self, graph: Any, look: Look) -> None:
        """Keep a record while its function exists, or while it is among the latest records.

        A record refers to layers, and these to their model, so it must be released with the model.
        """
        held: list[Look] = vars(self.owner or self).setdefault(LOOKS_OF, [])
        live = [*self._live(), (graph, look)]
        if len(live) > MAX_PROGRAMS:  # first drop a program without a loss
            live.remove(next((one for one in live[:-1] if not one[1].targets), live[0]))
        self._programs = [(weakref.ref(one), weakref.ref(its)) for one, its in live]
        left = [its for _, its in live]
        held[:] = [one for one in (*held, look) if one in left]

    def _live(self) -> list[tuple[Any, Look]]:
        """Return the remaining programs as graphs, with their records."""
        found: list[tuple[Any, Look]] = []
        for reference, its in self._programs:
            graph, look = reference(), its()
            if graph is not None and look is not None:
                found.append((graph, look))
        return found

    def take(self, *, programs_only: bool = False) -> list[Look]:
        """Return the programs and the finished eager step that ran since the last call."""
        found = self._ran()
        for look in found:
            look.forget()
        if programs_only:
            return found
        eager, self.eager = self.eager, Look()
        if eager.applied or eager.targets:
            found.append(eager)
        return found

    def _ran(self) -> list[Look]:
        """Return the programs that ran; a program that ran several times in a row comes first."""
        calls, self.calls = self.calls, 0
        before = self._alone() if self._alone is not None else None
        if calls == 1 and self._times >= ALONE and before is not None and before.has_run():
            return [before]
        found = [look for _, look in self._live() if look.has_run()]
        alone = found[0] if len(found) == 1 else None
        self._times = self._times + 1 if alone is before is not None else 0
        self._alone = weakref.ref(alone) if alone is not None else None
        return found

    def latest(self) -> Look:
        """Return the record of the latest traced program, or else of the eager step."""
        return next((look for _, look in reversed(self._live())), self.eager)

    def graphs(self) -> list[Any]:
        """Return the graphs of all programs."""
        return [graph for graph, _ in self._live()]

    def hidden(self) -> list[Look]:
        """Return programs whose content is hidden."""
        return [look for _, look in self._live() if look.why]


def _obstacle(graph: Any) -> str:
    """Return the reason why nothing inside a program is visible; '' if it is visible."""
    if internals.is_in_xla(graph):
        return "compiled by XLA (jit_compile=True), where observing it could change the results"
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        return "the step runs on several replicas"
    return ""
