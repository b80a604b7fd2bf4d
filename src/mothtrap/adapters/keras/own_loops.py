"""Custom loops: keep the state before each step, to store or undo it."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.keras import optimizers
from mothtrap.adapters.keras.guard import Guard
from mothtrap.adapters.keras.kept_steps import LARGE_BYTES
from mothtrap.adapters.keras.loop_state import FIRST, HeldLoop, Turn
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.batches import DRAWN, REPLICAS
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.resources import Reader, Resource, captured_by, resource_of
from mothtrap.core.adapters import Job
from mothtrap.core.working_folder import shown

LARGE: Final = (
    f"the variables take more than {LARGE_BYTES >> 20} MB, too much to keep in a custom loop"
)


class OwnLoops:
    """State of one handle's custom loops; used on the training thread.

    Args:
        job: job of the training.
        guard: determines whether any state is needed.

    Attributes:
        required: the variables are needed, regardless of the guard.
        held: state before the call or tape in progress; None if it is not kept, for the reason
            `why`.
    """

    def __init__(self, job: Job, guard: Guard) -> None:
        self._job, self._guard = job, guard
        self._readers: weakref.WeakKeyDictionary[Any, Reader] = weakref.WeakKeyDictionary()
        self._eager: dict[int, Resource] = {}
        self._roots: weakref.WeakSet[Any] = weakref.WeakSet()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._eager_reader: Reader | None = None
        self.required = False
        self.held: HeldLoop | None = None
        self.why = FIRST
        self._is_over = False  # a step was made with the stored state

    @property
    def _active(self) -> bool:
        return self.required or self._guard.needs_state

    # Loops with one `tf.function` call per step

    def call_began(self, function: Any) -> None:
        """Store the variables that a function uses, before the call."""
        if not self._active:
            return
        turn = Turn("function", name_of(function), LOOKS.given)
        self._hold(self._readers.get(function), turn)

    def call_ended(self, function: Any, looks: Sequence[Look], traces: int) -> None:
        """Record the variables of a function that has made a step."""
        if not self._active or (not traces and function in self._readers):
            return
        graphs = LOOKS.graphs_of(looks)
        before = self._readers.get(function)
        known = {id(one.handle): one for one in (before.resources if before else ())}
        for graph in graphs:
            known |= {
                id(one.handle): one for one in captured_by(graph) if id(one.handle) not in known
            }
        if known:
            self._readers[function] = Reader(list(known.values()))

    # Eager loops

    def tape_began(self) -> None:
        """Store the variables of an eager loop before its tape records."""
        if not self._active:
            return
        batch = DRAWN.take()
        if batch is not None:
            turn = Turn("batch", batch.location or "", batch.element)
        else:
            turn = Turn("count", str(self._job.now.step), None)
        self._hold(self._eager_reader, turn)

    def called(self, root: Any) -> None:
        """Record a layer or model called in an eager step."""
        if tf.executing_eagerly() and root not in self._roots:
            self._roots.add(root)
            self._eager_reader = None

    def stepped(self, optimizer: Any, variables: Iterable[Any]) -> None:
        """Record the variables of a completed eager step."""
        is_known = self._eager_reader is not None and optimizer in self._optimizers
        if is_known or not self._active:
            return
        self._optimizers.add(optimizer)
        found = [v for root in self._roots for v in root.variables]
        found += [*variables, *optimizer.variables]
        inner = optimizers.innermost(optimizer)
        found += [] if inner is optimizer else inner.variables
        for resource in map(resource_of, found):
            if resource is not None:
                self._eager.setdefault(id(resource.handle), resource)
        self._eager_reader = Reader(list(self._eager.values()))

    def applying(self, optimizer: Any, variables: Iterable[Any]) -> None:
        """Add the variables that an optimizer changes to the state stored before a function.

        The function has computed the gradients, and the script applies them eagerly. If another
        optimizer has already made its step with the same gradients, only these variables are kept.
        """
        held = self.held
        if held is None and self._is_over:
            held, self.why = HeldLoop(Turn("rest", "", None), (), (), own=0), ""
        if held is None or held.turn.kind not in ("function", "rest"):
            return
        known = {id(one.handle) for one in held.resources}
        found = map(resource_of, (*variables, *optimizer.variables))
        more = {id(one.handle): one for one in found if one and id(one.handle) not in known}
        if held.turn.kind == "rest" and _is_large(more.values()):
            self.why = LARGE
            return
        resources = [*held.resources, *more.values()]
        values = [*held.values, *(one.tensor() for one in more.values())]
        self.held = HeldLoop(held.turn, resources, values, held.own)

    def release(self) -> None:
        """Release the state after its step."""
        self._is_over |= self.held is not None
        self.held, self.why = None, FIRST

    def resources(self, function: Any = None) -> Sequence[Resource]:
        """Return the variables of a function, or of the eager loop."""
        reader = self._readers.get(function) if function is not None else self._eager_reader
        return reader.resources if reader is not None else ()

    def _hold(self, reader: Reader | None, turn: Turn) -> None:
        self.held, self.why, self._is_over = None, FIRST, False
        if reader is None:
            return
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            self.why = REPLICAS
        elif _is_large(reader.resources):
            self.why = LARGE
        else:
            self.held, self.why = (
                HeldLoop(turn, reader.resources, reader(), own=len(reader.resources)),
                "",
            )


def _is_large(resources: Iterable[Resource]) -> bool:
    return sum(one.size_bytes for one in resources) > LARGE_BYTES


def name_of(function: Any) -> str:
    """Return the name of a `tf.function` with the file and line of its definition."""
    python = inspect.unwrap(function.python_function)
    python = getattr(python, "__func__", python)
    code = getattr(python, "__code__", None)
    name = getattr(python, "__qualname__", "a function")
    return f"{name} ({shown(code.co_filename)}:{code.co_firstlineno})" if code else str(name)
