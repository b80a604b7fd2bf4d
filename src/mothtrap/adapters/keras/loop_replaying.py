"""Replay a recorded step of a custom loop in a process that runs its script again.

The script runs normally until its variables exist. Then they get the recorded values, and the step
runs with the recorded batch: in another call of the script's own `tf.function`, or in the next
iteration of the eager loop.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras.eager_step import EagerStep, OperationLog
from mothtrap.adapters.keras.guard import nonfinite_gradients
from mothtrap.adapters.keras.hooks import KerasHandle
from mothtrap.adapters.keras.loop_state import restore_loop
from mothtrap.adapters.keras.own_loops import name_of
from mothtrap.adapters.keras.refused import gradients_of, losses_without_gradient
from mothtrap.adapters.keras.replaying import ONLY_COMPILED, named, rows_on_the_way, tested
from mothtrap.adapters.keras.samples import in_variables, samples_of
from mothtrap.adapters.keras.snapshots import Made, rows_of, truth
from mothtrap.adapters.keras.steps import Before
from mothtrap.adapters.tensorflow import internals
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.origin import Bad, origin_of
from mothtrap.adapters.tensorflow.probes.batches import DRAWN
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import BatchHanded
from mothtrap.snapshot.tree import Opaque, value_of
from mothtrap.tracing.replacements import Function, Replacements, drop_own_frame
from mothtrap.tracing.snapshots import debugging
from mothtrap.tracing.snapshots.comparison import compared, raised_at
from mothtrap.tracing.snapshots.playback import Playback, with_rows
from mothtrap.tracing.source import frames


class LoopReplay(KerasHandle):
    """Base of replays of custom training loops.

    Args:
        job: captures nothing.
        plan: settings of the replay.
    """

    goal = ""

    def __init__(self, job: Job, plan: ReplayPlan) -> None:
        self._plan, self._playback = plan, Playback(plan, self.goal)
        self._loaded, self._outcome = self._playback.loaded, self._playback.outcome
        [event] = self._loaded.snapshot.steps[-1].events
        assert isinstance(event, BatchHanded)
        self._given = value_of(event.value, self._loaded.steps, lambda _: None)
        state = self._loaded.snapshot.state
        assert isinstance(state, dict)
        self._name = str(dict(state["dict"])["name"])
        self._data: Any = None  # the dataset of the step, if its iterator was deleted
        super().__init__(job)
        self._steps.loops.required = True

    def _restore(self, function: Any = None) -> None:
        resources = self._steps.loops.resources(function)
        state, arrays = self._loaded.snapshot.state, self._loaded.state
        for name in restore_loop(resources, state, arrays):
            self._outcome.note(f"{name} did not exist, so it was not restored")

    def _result(self, looks: Sequence[Look], error: BaseException | None = None) -> ReplayResult:
        """Compare a step with the run."""
        applied = gradients_of(looks)
        losses = self._steps.losses(
            Before(location=self._loaded.snapshot.steps[-1].events[0].site), looks
        )
        found = truth(Made(site=None, optimizer="", applied=applied, losses=losses))
        place = None
        if error is not None:
            found = msgspec.structs.replace(found, exception=f"{type(error).__name__}: {error}")
            place = raised_at(error)
        expected = self._loaded.snapshot.truth
        if expected is not None and not applied:  # the optimizer is called after the function
            expected = msgspec.structs.replace(expected, gradients={})
        result = compared(found, expected, found.values, nonfinite_gradients(applied)[0])
        return msgspec.structs.replace(result, raised_at=place)

    def _with_operation(self, result: ReplayResult, bad: Bad | None) -> ReplayResult:
        """Add the operation, and write a test of it if one was requested."""
        origin = origin_of(bad) if bad is not None else None
        if self._plan.test_file:
            path = Path(self._plan.test_file)
            result = tested(result, origin, path, self._plan.step, self._outcome.note)
        return named(result, origin, self._holder())

    def _holder(self) -> str:
        """Return the recorded variable, or the batch, that was not finite before any operation."""
        state = self._loaded.snapshot.state
        assert isinstance(state, dict)
        for each in dict(state["dict"])["variables"]["list"]:
            path, leaf = each["list"]
            value = value_of(leaf, self._loaded.state, lambda _: None)
            if not _is_finite(value):
                return f"weight {path}"
        return "" if all(map(_is_finite, tf.nest.flatten(self._given))) else "batch"

    def _with_samples(self, result: ReplayResult, batch: Any) -> ReplayResult:
        """Add the positions of the rows in the dataset or arrays that the script reads."""
        leaves = tf.nest.flatten(batch)
        count = rows_of(batch)
        batch = [
            one
            for one in leaves
            if isinstance(one, np.ndarray) and len(one.shape[:1]) and len(one) == count
        ]
        data = DRAWN.data or self._data
        try:
            if data is not None:
                names_R = samples_of((data, None), batch, result.rows)
            else:
                names_R = in_variables(_variables(), batch, result.rows)
        except Exception as err:  # the user's pipeline may do anything
            self._outcome.note(f"the origin of the rows is unknown: {err}")
            return result
        known = [(row, name) for row, name in zip(result.rows, names_R, strict=False) if name]
        told = tuple(f"row {row} is {name}" for row, name in known)
        samples = names_R if known else ()
        return msgspec.structs.replace(result, samples=samples, told=(*result.told, *told))


class FunctionReplay(LoopReplay):
    """Calls the `tf.function` of the step again, once the script has called it."""

    goal = "the function of the step was called and returned"

    def began(self) -> None:
        """Store the arguments of the call."""
        if not self._here.depth:
            self._live = LOOKS.given
        super().began()

    def ended(self, function: Any, traces: int, looks: list[Look]) -> bool:
        """Replay the recorded step after the first call to its function."""
        made = super().ended(function, traces, looks)
        is_it = not self._here.depth and name_of(function) == self._name
        if is_it and self._steps.loops.resources(function):
            self._playback.play(lambda: self._play(function))
        return made

    def _play(self, function: Any) -> ReplayResult:
        self._playback.refuse_conversions("Keras", dtype=False)
        self._here.depth += 1  # operations here must not count as a step
        self._restore(function)
        error: BaseException | None = None
        args, kwargs = filled(self._given, self._live)
        try:
            function(*args, **kwargs)
        except Exception as err:  # raised by the step itself
            error = err
        result = self._result(LOOKS.take(), error)
        bad_here = result.nonfinite or result.exception
        if bad_here and (self._plan.narrow or self._plan.debug):
            result = self._narrowed(function, result)
        return result

    def _step(self, function: Any, rows: Sequence[int] | None = None) -> EagerStep:
        chosen = self._given if rows is None else with_rows_only(self._given, rows)
        args, kwargs = filled(chosen, self._live)
        return EagerStep(lambda: function(*args, **kwargs), lambda: self._restore(function))

    def _narrowed(self, function: Any, result: ReplayResult) -> ReplayResult:
        bad = self._step(function).first_bad()
        if self._plan.debug:
            place = self._plan.stop_at or (origin_of(bad).place.location if bad else None)
            if place is not None:
                debugging.stop_before(place)
                self._step(function).first_bad()
            return result
        if bad is None and not self._holder():
            return msgspec.structs.replace(result, told=(ONLY_COMPILED,))
        found = self._with_operation(result, bad)
        count = rows_of(self._given)
        if count < 2 or found.holder.startswith("weight"):
            return found
        suspects = found.suspects
        if bad is not None and not suspects:
            suspects = rows_on_the_way(bad, count)

        def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
            chosen = np.resize(rows, count).tolist() if repeat else list(rows)
            try:
                return self._step(function, chosen).is_bad()
            except Exception:  # the function does not accept such a batch
                return None

        return self._with_samples(with_rows(found, trial, count, suspects), self._given)


class EagerReplay(LoopReplay):
    """Replays the recorded step in one iteration of an eager loop."""

    def __init__(self, job: Job, plan: ReplayPlan) -> None:
        self._watch: OperationLog | None = None
        self._is_over = False
        super().__init__(job, plan)
        atexit.register(self._finish)  # a script may end itself at a step that is not finite

    def _begin(self) -> None:
        """Restore the recorded state, and watch the operations of the script from now on."""
        self._playback.refuse_conversions("Keras", dtype=False)
        self._data = DRAWN.data
        self._restore()
        LOOKS.take()
        if self._plan.stop_at:
            debugging.stop_before(self._plan.stop_at)
        self._watch = OperationLog()
        self._watch.__enter__()

    def _applying(self, optimizer: Any, gradients: Any, variables: Any) -> Before | None:
        before = super()._applying(optimizer, gradients, variables)
        self._finish()
        return before

    def tape_began(self) -> None:
        """Close the step in progress, which the script did not apply."""
        self._finish()
        super().tape_began()

    def _finish(self) -> None:
        """Report the result of the step, if it ran."""
        look = LOOKS.eager
        if self._watch is not None and (look.targets or look.scalars):
            if not look.targets:
                look.targets += losses_without_gradient(look)
            watch, self._watch, self._is_over = self._watch, None, True
            watch.__exit__()
            self._playback.play(lambda: self._seen(watch, look))

    def _seen(self, watch: OperationLog, look: Look) -> ReplayResult:
        result = self._result([look])
        bad = watch.first_bad(look)
        if not result.nonfinite or not self._plan.narrow or self._plan.debug:
            return result
        found = self._with_operation(result, bad)
        if bad is None or found.holder.startswith("weight"):
            return found
        count = rows_of(self._given) or origin_of(bad).count
        rows = found.suspects or rows_on_the_way(bad, count)
        if not rows or count < 2:
            return found
        word = "row" if len(rows) == 1 else "rows"
        told = f"{word} {', '.join(map(str, rows))} of {count} made it non-finite"
        found = msgspec.structs.replace(
            found, rows=rows, batch_rows=count, told=(*found.told, told)
        )
        return self._with_samples(found, self._given)


class BatchReplay(EagerReplay):
    """Passes the recorded batch to the loop when it requests its next one."""

    goal = "the loop of the step drew its second batch"

    def install(self, replacements: Replacements) -> None:
        """Also replace the function that returns elements of datasets."""
        super().install(replacements)
        replacements.replace(internals.iterator_type(), "__next__", self._around_next)

    def _around_next(self, original: Function) -> Function:
        def following(iterator: Any) -> Any:
            self._finish()
            try:
                element = original(iterator)
            except BaseException as err:
                drop_own_frame(err)
                raise
            if self._watch is None and self._is_here():
                element = filled(self._given, element)
                self._playback.play(self._begin)
            return element

        return following

    def _is_here(self) -> bool:
        is_due = self.job.now.step > 0 and not self._is_over
        return is_due and frames.user_location() == self._name


class CountReplay(EagerReplay):
    """Waits for the step with the same number, whose batch only the script has."""

    goal = "the loop reached the step"

    def tape_began(self) -> None:
        """Start at the tape of the step."""
        super().tape_began()
        is_due = self._watch is None and not self._is_over
        if is_due and self.job.now.step == int(self._name):
            self._outcome.note(
                "the batch is not in the snapshot: the batch of the step with the same number "
                "was used instead"
            )
            self._playback.play(self._begin)


def filled(recorded: Any, live: Any) -> Any:
    """Convert recorded arguments to tensors, filling gaps from a live call."""
    if isinstance(recorded, Opaque):
        return live
    if isinstance(recorded, dict) and isinstance(live, Mapping):
        return {key: filled(value, live.get(key)) for key, value in recorded.items()}
    are_sequences = isinstance(recorded, list | tuple) and isinstance(live, list | tuple)
    if are_sequences and len(recorded) == len(live):
        made = [filled(one, other) for one, other in zip(recorded, live, strict=True)]
        return type(live)(*made) if hasattr(live, "_fields") else type(recorded)(made)
    if isinstance(recorded, np.ndarray | np.generic) and tf.is_tensor(live):
        return tf.convert_to_tensor(recorded)
    return recorded


def with_rows_only(given: Any, rows: Sequence[int]) -> Any:
    """Return arguments with a selection of rows in each array with the batch size."""
    count = rows_of(given)

    def chosen(leaf: Any) -> Any:
        is_batch = isinstance(leaf, np.ndarray) and leaf.ndim and len(leaf) == count
        return leaf[list(rows)] if is_batch else leaf

    return tf.nest.map_structure(chosen, given)


def _variables() -> dict[str, Any]:
    """Return the variables of the running user code, innermost first."""
    frame, found = frames.user_frame(), dict[str, Any]()
    while frame is not None:
        if frames.is_users(frame):
            found = {**frame.f_globals, **frame.f_locals, **found}
        frame = frame.f_back
    return found


def _is_finite(value: Any) -> bool:
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())
