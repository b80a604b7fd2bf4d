"""Replaced methods of tapes and functions, shared by all adapters on TensorFlow."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final, Protocol

import tensorflow as tf

from mothtrap.adapters.tensorflow import internals, raw_losses
from mothtrap.adapters.tensorflow.broadcasts import broadcast_under, is_broadcast, is_made_of
from mothtrap.adapters.tensorflow.loss_terms import EagerTerms, terms_of
from mothtrap.adapters.tensorflow.probes.eager_operations import EagerOperations
from mothtrap.adapters.tensorflow.probes.logged import GRAPH_LOG
from mothtrap.adapters.tensorflow.probes.probes import Look, Looks
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.adapters.tensorflow.probes.sums import summed_apart
from mothtrap.adapters.tensorflow.probes.tape_targets import Broadcast, Target
from mothtrap.tracing.replacements import Contain, Function, Replacements, drop_own_frame
from mothtrap.tracing.source import frames

LOOKS: Final = Looks()
"""Inspections of programs and eager steps of this process; adapters on TensorFlow share them."""
OPERATIONS: Final = EagerOperations()
EAGER_TERMS: Final = EagerTerms(OPERATIONS)


class Listener(Protocol):
    """Part of an adapter that is notified of tapes and functions."""

    def busy(self) -> bool:
        """Return whether a step is in progress that another caller will end."""

    def began(self) -> None:
        """Handle the call to an outermost function."""

    def ended(self, function: Any, traces: int, looks: list[Look]) -> bool:
        """Handle its return, with its number of traces and its observations.

        Returns:
            Whether it made a step.
        """

    def tape_began(self) -> None:
        """Handle the start of an outermost eager tape."""

    def take_ending(self) -> BaseException | None:
        """Return the exception to raise after a function, or None."""


class Sampling(Protocol):
    """Part of an adapter that skips observation of calls."""

    def passes(self, function: Any) -> bool:
        """Return whether to skip observation of a call to an outermost function."""

    def passed(self, result: Any) -> bool:
        """Check the result of a skipped call; return whether it needs no inspection."""


class Shared:
    """Replaced tapes and functions, shared by all TensorFlow-based adapters.

    Attributes:
        passing: called functions are not observed.
        sampling: decides about each outermost call; None = all are observed.
    """

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, Contain]] = []
        self._replacements: Replacements | None = None
        self._depth = _Depth()
        self.passing = False
        self.sampling: Sampling | None = None

    def join(self, listener: Listener, contain: Contain) -> None:
        """Add an adapter as a listener; later ones are called first."""
        self._listeners.insert(0, (listener, contain))
        if self._replacements is None:
            LOOKS.begin()
            EAGER_TERMS.reset()
            frames.generated.append(internals.line_before_autograph)
            self._replacements = Replacements(self._contained)
            tape = tf.GradientTape
            self._replacements.around(tape, "__enter__", self._tape_began, None)
            self._replacements.around(tape, "__exit__", _tape_ended, None)
            self._replacements.around(tape, "gradient", None, _differentiated)
            self._replacements.replace(internals.function_type(), "__call__", self._around_call)
            raw_losses.install(self._replacements, LOOKS)
            for name in ("__sub__", "__rsub__"):
                self._replacements.around(tf.Tensor, name, None, _subtracted)

    def is_running(self) -> bool:
        """Return whether a program called by this thread is running or being traced."""
        return self._depth.now > 0

    def leave(self, listener: Listener) -> None:
        """Remove an adapter; after the last one, restore everything."""
        self._listeners = [each for each in self._listeners if each[0] is not listener]
        self.sampling = None
        if not self._listeners and self._replacements is not None:
            self._replacements.undo()
            self._replacements = None
            LOOKS.take()
            GRAPH_LOG.leave()
            frames.generated.remove(internals.line_before_autograph)

    def _contained(self, act: Contain, *args: Any) -> Any:
        return self._listeners[0][1](act, *args) if self._listeners else None

    def _tape_began(self, *_: object) -> None:
        if not LOOKS.tapes and not self._depth.now and tf.executing_eagerly():
            for listener, contain in self._listeners:
                contain(listener.tape_began)
            LOOKS.eager.sources.clear()  # gradients that no assignment has followed yet
            LOOKS.eager.gradients.clear()
            LOOKS.eager.scalars = []
            LOOKS.eager.difference = None
            OPERATIONS.begin()
        elif LOOKS.tapes:
            OPERATIONS.nested()
        LOOKS.tapes += 1

    def _around_call(self, original: Function) -> Function:
        depth = self._depth

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self.passing:
                return original(function, *args, **kwargs)
            is_outermost = depth.now == 0 and tf.executing_eagerly()
            if is_outermost:
                LOOKS.owner, LOOKS.given = function, (args, kwargs)
            sampling, traces = self.sampling if is_outermost else None, None
            if sampling is not None and self._contained(sampling.passes, function):
                self.passing = True
            else:
                sampling = None
                traces = self._contained(self._began, function) if is_outermost else None
            depth.now += 1
            try:
                result = original(function, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                depth.now -= 1
                if is_outermost:
                    LOOKS.owner = LOOKS.given = None
                if sampling is not None:
                    self.passing = False
            if sampling is not None:
                self._contained(self._passed, sampling, function, result)
            elif traces is not None:
                self._contained(self._ended, function, traces)
            if is_outermost:
                self._raise_ending()
            return result

        return call

    def _raise_ending(self) -> None:
        """Raise the exception that ends the job after an unsound step."""
        for listener, contain in self._listeners:
            ending = contain(listener.take_ending)
            if ending is not None:
                raise ending

    def _passed(self, sampling: Sampling, function: Any, result: Any) -> None:
        if not sampling.passed(result):
            self._ended(function, int(function.experimental_get_tracing_count()))

    def _began(self, function: Any) -> int:
        LOOKS.calls += 1
        for listener, contain in self._listeners:
            contain(listener.began)
        return int(function.experimental_get_tracing_count())

    def _ended(self, function: Any, traces_before: int) -> None:
        GRAPH_LOG.deliver()
        traces = int(function.experimental_get_tracing_count()) - traces_before
        busy = any(listener.busy() for listener, _ in self._listeners)
        looks = [] if busy else LOOKS.take(programs_only=True)
        for listener, contain in self._listeners:
            if contain(listener.ended, function, traces, looks):
                looks = []


class _Depth(threading.local):
    now = 0


def _tape_ended(*_: object) -> None:
    LOOKS.tapes = max(0, LOOKS.tapes - 1)
    if not LOOKS.tapes and tf.executing_eagerly():
        OPERATIONS.stop()
        LOOKS.eager.scalars = _scalars_of(frames.user_frame())


def _scalars_of(frame: FrameType | None) -> list[tuple[Any, str | None]]:
    """Return the scalars, including the loss, that the tape of a frame has recorded."""
    if frame is None:
        return []
    place = frames.location(frame)
    found = [one for one in list(frame.f_locals.values()) if _is_float_scalar(one)]
    return [(one, place) for one in found if internals.is_recorded(one)]


def _is_float_scalar(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.shape.rank == 0 and value.dtype.is_floating


def _differentiated(
    tape: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], __: Any
) -> None:
    target = args[0] if args else kwargs.get("target")
    sources = args[1] if len(args) > 1 else kwargs.get("sources")
    look = LOOKS.current()
    if not any(map(_is_variable, tf.nest.flatten(sources))):
        return
    if look is None:
        _differentiated_in_branch(target, tf.nest.flatten(sources))
        return
    value = original_of(look, target)
    if look.why or not tf.is_tensor(value) or not value.dtype.is_floating:
        return
    place = frames.user_location()
    scalar = summed_apart(value) if value.shape.rank == 0 else tf.reduce_mean(value)
    broadcast = _difference_in(look, scalar)
    every = tf.nest.flatten(sources)
    given, first = frozenset(map(id, every)), weakref.ref(next(filter(_is_variable, every)))
    others = _not_asked_for(tape, every)
    look.watched += others
    is_scaled = value is not target
    target_of = Target(Slot(scalar), place, is_scaled, broadcast, scalar, given, first, value)
    terms = EAGER_TERMS.of if tf.executing_eagerly() else terms_of
    target_of.terms = terms(look, value, place, partly=bool(others))
    look.add_target(target_of)
    OPERATIONS.differentiated(again=internals.is_persistent(tape))
    for source, gradient in zip(every, tf.nest.flatten(result), strict=False):
        if gradient is None:
            look.unreached.append(source)
        elif isinstance(source, tf.Variable):
            look.plain.append((source, Slot(values_of(gradient))))
        else:
            look.sources.append((source, values_of(gradient)))
        if gradient is not None:
            look.gradients.append((source, values_of(gradient)))
    look.flush()


def _differentiated_in_branch(target: Any, sources: Sequence[Any]) -> None:
    """Probe a loss that is only differentiated in a branch, which a script may skip."""
    found = LOOKS.around()
    if found is None or not tf.is_tensor(target) or not target.dtype.is_floating:
        return
    graph, look = found
    if look.why or target.graph is not graph or target.shape.rank != 0:
        return
    first = weakref.ref(next(filter(_is_variable, sources)))
    with graph.as_default():
        given, place = frozenset(map(id, sources)), frames.user_location()
        look.add_target(Target(Slot(target), place, False, None, target, given, first, target))


def _difference_in(look: Look, loss: Any) -> Broadcast | None:
    """Return the difference between every prediction and every target behind a loss."""
    if not tf.executing_eagerly():
        found = broadcast_under(loss)
        return Broadcast(Slot(tf.shape(found))) if found is not None else None
    difference, look.difference = look.difference, None
    if difference is None or not is_made_of(loss, difference[0]):
        return None
    return Broadcast(Slot(tf.shape(difference[0])), difference[1])


def _subtracted(left: Any, result: Any, args: tuple[Any, ...], *_: object) -> None:
    """Record a difference in an eager step between a computed tensor and data."""
    if not LOOKS.tapes or not args or not isinstance(args[0], tf.Tensor):
        return
    if not tf.executing_eagerly() or not is_broadcast(left, args[0]):
        return
    if internals.is_recorded(left) != internals.is_recorded(args[0]):
        look = LOOKS.current()
        if look is not None:
            look.difference = result, frames.user_location()


def _not_asked_for(tape: Any, sources: Sequence[Any]) -> list[weakref.ref[Any]]:
    """Return the matrices that a tape watches, without those whose gradients are requested."""
    asked = {
        id(one if isinstance(one, tf.Variable) else getattr(one, "value", one)) for one in sources
    }
    return [
        weakref.ref(variable)
        for variable in tape.watched_variables()
        if id(variable) not in asked and variable.dtype.is_floating and variable.shape.rank >= 2
    ]


def values_of(gradient: Any) -> Any:
    """Return a gradient as a tensor; a sparse gradient contains only its rows."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _is_variable(source: Any) -> bool:
    return isinstance(source, tf.Variable) or hasattr(source, "trainable")


def scaled(look: Look, loss: Any, result: Any) -> None:
    """Record a value multiplied by a loss scale."""
    if result is not loss:
        look.made[id(result)] = (SCALED, loss)
        look.held += [result, loss]


SCALED: Final = object()


def original_of(look: Look, tensor: Any) -> Any:
    """Return the loss that was scaled to a tensor, or the tensor itself."""
    how, source = look.made.get(id(tensor), (None, tensor))
    return source if how is SCALED else tensor


SHARED: Final = Shared()
