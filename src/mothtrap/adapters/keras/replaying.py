"""Replay a recorded step in a process that runs the script again.

The script runs up to the first call of its train function. There the model gets the recorded
state, the function gets the recorded batch, and the result is compared with the run. Then the
step is repeated eagerly, each operation is inspected, and the process ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import msgspec
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import internals, layers
from mothtrap.adapters.keras.eager_step import EagerStep
from mothtrap.adapters.keras.fits import Fit
from mothtrap.adapters.keras.guard import nonfinite_gradients
from mothtrap.adapters.keras.hooks import KerasHandle
from mothtrap.adapters.keras.refused import gradients_of
from mothtrap.adapters.keras.samples import samples_of
from mothtrap.adapters.keras.snapshots import Made, rows_of, tensors_of, truth
from mothtrap.adapters.keras.state import Held, hold, restore, variables_of
from mothtrap.adapters.keras.steps import Before
from mothtrap.adapters.tensorflow import as_test
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.origin import Bad, origin_of
from mothtrap.core.adapters import Job
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import BatchHanded
from mothtrap.snapshot.tree import value_of
from mothtrap.tracing.snapshots import debugging
from mothtrap.tracing.snapshots.comparison import compared, raised_at
from mothtrap.tracing.snapshots.playback import Playback, with_rows

ONLY_COMPILED = (
    "executed eagerly, operation by operation, the step is finite: only the compiled program "
    "produces non-finite values"
)


class ReplayingHandle(KerasHandle):
    """Replays the recorded step at the first call to a train function.

    Args:
        job: captures nothing.
        plan: settings of the replay.
    """

    def __init__(self, job: Job, plan: ReplayPlan) -> None:
        super().__init__(job)
        self._playback = Playback(plan, "a train function of a model was called")
        self._plan, self._outcome = plan, self._playback.outcome
        self._loaded = self._playback.loaded
        [event] = self._loaded.snapshot.steps[-1].events
        assert isinstance(event, BatchHanded)
        self._batch = value_of(event.value, self._loaded.steps, lambda _: None)
        self._data: tuple[Any, Any] = None, None  # of the latest `fit`
        self._first: Held | None = None  # of variables that a first step had yet to make
        self._name = value_of(self._loaded.snapshot.state, self._loaded.state, lambda _: None)[
            "model"
        ]

    def _fit_given(self, fit: Fit, given: Mapping[str, Any]) -> None:
        super()._fit_given(fit, given)
        self._data = given.get("x"), given.get("y")

    def _call_began(self, model: Any, original: Callable[..., Any], iterator: Any) -> Before | None:
        if model is not None:
            self._playback.play(lambda: self._play(model, original, iterator))
        return None

    def _play(self, model: Any, original: Callable[..., Any], iterator: Any) -> ReplayResult | None:
        if str(model.name) != self._name and not self._is_like(model):
            return None  # another model is trained first
        self._playback.refuse_conversions("Keras", dtype=False)
        result = self._compiled(model, original, iterator)
        bad_here = result.nonfinite or result.exception
        if bad_here and (self._plan.narrow or self._plan.debug):
            result = self._narrowed(model, result)
        return result

    def _is_like(self, model: Any) -> bool:
        content = dict(self._loaded.snapshot.state["dict"])  # type: ignore[index,arg-type]
        recorded = {each["list"][0] for each in content["variables"]["list"]}
        return {str(v.path) for v in model.trainable_variables} <= recorded

    def _restore(self, model: Any) -> None:
        if self._first is not None:
            self._first.put_back()
        for path in restore(model, self._loaded.snapshot.state, self._loaded.state):
            self._outcome.note(f"{path} did not exist, so it was not restored")

    # The step as in the run

    def _compiled(self, model: Any, original: Callable[..., Any], iterator: Any) -> ReplayResult:
        self._build(model, original, iterator)
        self._restore(model)
        LOOKS.optimized.update(map(id, model.trainable_variables))
        place = self._running.fit.location if self._running.fit is not None else None
        before = self._steps.begin(model, self._loaded.snapshot.steps[-1].events[0].site or place)
        self._here.depth += 1
        error: BaseException | None = None
        try:
            before.take_logs(original(self._feed(iterator)))
        except Exception as err:  # raised by the step itself
            error = err
        self._here.depth -= 1
        looks = LOOKS.take()
        made = Made(
            site=before.location,
            optimizer="",
            applied=gradients_of(looks),
            losses=self._steps.losses(before, looks),
        )
        found = truth(made)
        if error is not None:
            found = msgspec.structs.replace(found, exception=f"{type(error).__name__}: {error}")
        result = compared(
            found, self._loaded.snapshot.truth, found.values, nonfinite_gradients(made.applied)[0]
        )
        return msgspec.structs.replace(
            result, raised_at=raised_at(error) if error is not None else None
        )

    def _build(self, model: Any, original: Callable[..., Any], iterator: Any) -> None:
        """Create the variables that a model would create in its first step."""
        if internals.is_built(model):
            return
        try:
            internals.build(model, tensors_of(self._batch))
        except Exception:  # a user-defined `train_step` may take batches of any form
            self._here.depth += 1
            with contextlib.suppress(Exception):  # the step will raise it again
                original(self._feed(iterator))
            self._here.depth -= 1
            LOOKS.take()
        self._first = hold(model)

    def _feed(self, iterator: Any) -> Any:
        if not isinstance(iterator, internals.iterators()):
            return iter([tensors_of(self._batch)])
        data = tf.data.Dataset.from_generator(
            lambda: iter([self._batch]), output_signature=iterator.element_spec
        )
        return iter(data)

    # The step, operation by operation

    def _narrowed(self, model: Any, result: ReplayResult) -> ReplayResult:
        self._here.depth += 1  # operations here must not count as a step
        holder = self._holder(model)
        bad = self._eager(model).first_bad()
        if bad is None and not holder and self._leave_out_dropouts(model):
            bad = self._eager(model).first_bad()
        if self._plan.debug:
            self._debug(model, self._plan.stop_at or location_of(bad))
            return result
        origin = origin_of(bad) if bad is not None else None
        if self._plan.test_file:
            path = Path(self._plan.test_file)
            result = tested(result, origin, path, self._plan.step, self._outcome.note)
        if bad is None and not holder:
            return msgspec.structs.replace(result, told=(ONLY_COMPILED,))
        found = named(result, origin, holder)
        count = rows_of(self._batch)
        if count < 2 or holder.startswith("weight"):
            return found
        suspects = found.suspects
        if bad is not None and not suspects:
            suspects = rows_on_the_way(bad, count)

        def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
            chosen = np.resize(rows, count).tolist() if repeat else list(rows)
            try:
                return self._eager(model, chosen).is_bad()
            except Exception:  # the model does not accept such a batch
                return None

        return self._with_samples(with_rows(found, trial, count, suspects))

    def _eager(self, model: Any, rows: Sequence[int] | None = None) -> EagerStep:
        batch = tensors_of(self._batch, rows)
        return EagerStep(lambda: model.train_step(batch), lambda: self._restore(model))

    def _with_samples(self, result: ReplayResult) -> ReplayResult:
        """Add the positions of the rows in the arrays or files that were passed to `fit`."""
        try:
            names_R = samples_of(self._data, self._batch, result.rows)
        except Exception as err:  # the user's pipeline may do anything
            self._outcome.note(f"the origin of the rows is unknown: {err}")
            return result
        known = [(row, name) for row, name in zip(result.rows, names_R, strict=True) if name]
        told = tuple(f"row {row} is {name}" for row, name in known)
        samples = names_R if known else ()
        return msgspec.structs.replace(result, samples=samples, told=(*result.told, *told))

    def _debug(self, model: Any, location: str | None) -> None:
        """Repeat the step, with a debugger before a line."""
        if location is not None:
            debugging.stop_before(location)
            self._eager(model).first_bad()

    def _leave_out_dropouts(self, model: Any) -> bool:
        """Disable dropouts, if any, for an XLA program, which draws different random numbers."""
        dropouts = [layer for layer in internals.leaves(model) if layers.is_dropout(layer)]
        for layer in dropouts if model.jit_compile else ():
            layer.rate = 0.0
            self._outcome.note(
                "dropout is off in eager mode, because XLA draws different random numbers"
            )
        return bool(dropouts) and bool(model.jit_compile)

    def _holder(self, model: Any) -> str:
        """Return the weight, or the batch, that was not finite before any operation."""
        self._restore(model)
        for variable in variables_of(model):
            value = keras.ops.convert_to_numpy(variable.value)
            trained = any(variable is one for one in model.weights)
            if trained and value.dtype.kind == "f" and not np.isfinite(value).all():
                return f"weight {variable.path}"
        for place, leaf in enumerate(tf.nest.flatten(self._batch)):
            value = np.asarray(leaf)
            if leaf is not None and value.dtype.kind == "f" and not np.isfinite(value).all():
                return "batch" if place == 0 else f"batch[{place}]"
        return ""


def tested(
    result: ReplayResult, bad: Bad | None, path: Path, step: int, note: Callable[[str], None]
) -> ReplayResult:
    """Write a test of the operation that was found, or return why there is none.

    Args:
        result: result of the step.
        bad: the operation; None if none was found.
        path: path of the test.
        step: number of the step.
        note: called with a sentence about the test.
    """
    if bad is None or not bad.tensors:
        return msgspec.structs.replace(result, untested=as_test.NO_OPERATION)
    place = f" ({bad.place.location})" if bad.place.location else ""
    title = f"Step {step}: {bad.told}{place} produces non-finite values."
    try:
        note(as_test.write(path, bad.operation, bad.tensors, bad.attrs, title))
    except as_test.NotWrittenError as err:
        return msgspec.structs.replace(result, untested=str(err))
    return result


def named(result: ReplayResult, bad: Bad | None, holder: str) -> ReplayResult:
    """Add the operation at which a step failed.

    Args:
        result: result of the step.
        bad: the operation; None if none was found.
        holder: the weight or batch that was already non-finite when the step began; '' if all were
            finite.
    """
    told: list[str] = []
    if holder:
        told.append(f"{holder} was not finite when the step began")
    if bad is None or (holder and bad.given):
        return msgspec.structs.replace(result, told=tuple(told), holder=holder)
    if bad.inputs:
        told.append(f"its inputs were {'; '.join(bad.inputs)}")
    return msgspec.structs.replace(
        result,
        module=bad.place.module or None,
        operation=bad.told,
        location=bad.place.location,
        suspects=bad.rows,
        told=tuple(told),
        holder=holder,
    )


def location_of(bad: Bad | None) -> str | None:
    """Return the line of the operation that produced a non-finite value."""
    return origin_of(bad).place.location if bad is not None else None


def rows_on_the_way(bad: Bad, count: int) -> tuple[int, ...]:
    """Return the rows of the nearest operation whose first axis is the batch."""
    waiting, seen = [bad], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.count == count and one.rows:
            return one.rows
        waiting += one.causes
    return ()
