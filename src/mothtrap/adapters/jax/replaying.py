"""Replay a recorded step in a process that runs the script again.

The script runs up to the first call of the compiled function. There the recorded arguments
replace its own. The same executable runs from them to the recorded step, and the result is
compared with the run. Then its program is executed operation by operation, and the process ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import msgspec
import numpy as np

from mothtrap.adapters.jax.donations import Again, Stretch, copied, mean_of
from mothtrap.adapters.jax.functions import Layout
from mothtrap.adapters.jax.hooks import JaxHandle
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.leaves import batch_of, leaves_of
from mothtrap.adapters.jax.searching import Found, UnknownOrigin, located
from mothtrap.adapters.jax.snapshots import digests_of_losses
from mothtrap.adapters.jax.steps import leaves_at
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import BatchHanded, ReferenceDigests
from mothtrap.tracing.snapshots import debugging
from mothtrap.tracing.snapshots.comparison import compared
from mothtrap.tracing.snapshots.playback import Playback, quiet_job, with_rows
from mothtrap.tracing.snapshots.taking import digest

ONLY_COMPILED = (
    "replayed operation by operation, the step is finite: only the compiled program produces NaN"
)


def begin(plan: ReplayPlan) -> None:
    """Replay a snapshot in the script that is about to run."""
    ReplayingHandle(quiet_job("jax"), plan)


class ReplayingHandle(JaxHandle):
    """Replays the recorded step at the first call to its function.

    Args:
        job: captures nothing.
        plan: plan of the replay.
    """

    def __init__(self, job: Job, plan: ReplayPlan) -> None:
        super().__init__(job)
        self._playback = Playback(plan, "the compiled function of the step was called")
        self._snapshot = self._playback.loaded.snapshot
        content = dict(self._snapshot.state["dict"])  # type: ignore[index,arg-type]
        self._function, self._start = content["function"], content["leaves"]

    def before(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # type: ignore[override]
        """Replay the step if this is a call to its function."""
        self._playback.play(lambda: self._play(jitted, args, kwargs))

    def after(self, jitted: Jitted, noted: None, out: Any) -> Any:  # type: ignore[override] # noqa: ARG002
        """Return JAX's result to the script."""
        return out

    def _play(self, jitted: Jitted, args: Any, kwargs: Any) -> ReplayResult | None:
        own, tree = jax.tree_util.tree_flatten((args, kwargs))
        name = getattr(jitted.fun, "__name__", type(jitted.fun).__name__)
        if name != self._function or len(own) != len(self._start["list"]) or jitted.is_mapped:
            return None
        jitted.raw.trace(*args, **kwargs)
        layout = jitted.traced.layout
        if layout is None or not (layout.makes_steps or layout.gradients):
            return None
        self._playback.refuse_conversions("JAX")
        again = self._recorded(jitted, tree, own)
        result, inputs = self._compiled(again, layout)
        if result.nonfinite and (self._playback.plan.narrow or self._playback.plan.debug):
            result = self._localized(again, layout, inputs, result)
        return result

    def _recorded(self, jitted: Jitted, tree: Any, own: Sequence[Any]) -> Again:
        """Return the recorded arguments, and the calls from there to the step."""
        loaded, steps = self._playback.loaded, self._snapshot.steps
        stretch = Stretch(tree, leaves_of(self._start, loaded.state, own))
        for place, step in enumerate(steps):
            stretch.steps[place] = step.step
            [event] = step.events
            assert isinstance(event, BatchHanded)
            if place:
                stretch.later.append(leaves_of(event.value, loaded.steps, own))
        return Again(jitted, stretch, len(steps) - 1)

    # The step as in the run

    def _compiled(self, again: Again, layout: Layout) -> tuple[ReplayResult, Any]:
        on_the_way: dict[int, float] = {}
        inputs = again.inputs(layout, on_the_way.__setitem__)
        results = _results(again.jitted, inputs)
        loss = np.asarray(results[layout.loss]) if layout.loss is not None else None
        updated = leaves_at(results, layout.updated or layout.gradients)
        truth = self._snapshot.truth or ReferenceDigests()
        known = {p: loss for p, loss in on_the_way.items() if self._snapshot.steps[p].losses}
        found = ReferenceDigests(
            losses=digests_of_losses(
                layout, again.stretch.steps, known, mean_of(loss) if loss is not None else None
            ),
            weights={
                name: digest(np.asarray(one))
                for name, one in zip(truth.weights, updated, strict=False)
            },
        )
        bad = tuple(
            name
            for name, one in zip(layout.weights, updated, strict=False)
            if not bool(jax.numpy.isfinite(one).all())
        )
        losses = tuple(loss.astype(np.float64).reshape(-1).tolist()) if loss is not None else ()
        result = compared(found, truth, losses, bad if layout.gradients else ())
        return msgspec.structs.replace(result, nonfinite=result.nonfinite or bool(bad)), inputs

    # The step, operation by operation

    def _localized(
        self, again: Again, layout: Layout, inputs: Any, result: ReplayResult
    ) -> ReplayResult:
        def before() -> Any:
            earlier = again.before()
            if earlier is None:
                raise UnknownOrigin("the weights were not finite before the step")
            return earlier.inputs(layout, lambda *_: None)

        try:
            found = located(again.jitted, layout, inputs, before, step=self._snapshot.step)
        except UnknownOrigin as why:
            return msgspec.structs.replace(result, told=(str(why),), holder="weights")
        operation = found.operation
        if self._playback.plan.debug:
            stop_at = self._playback.plan.stop_at or (operation.location if operation else None)
            self._debug(again.jitted, found, stop_at)
            return result
        if operation is None:
            return msgspec.structs.replace(result, told=(ONLY_COMPILED,))
        bad_inputs = [one for one in found.facts if isinstance(one, NonfiniteInput)]
        told = [
            (f"{one.tensor} contained NaN or infinite values when the step began")
            for one in bad_inputs
        ]
        told += [f"its arguments: {'; '.join(operation.inputs)}"] if operation.inputs else []
        result = msgspec.structs.replace(
            result,
            module=operation.module or None,
            operation=operation.operation,
            location=operation.location,
            suspects=operation.rows,
            told=tuple(told),
            holder=f"batch {bad_inputs[0].tensor}" if bad_inputs else "",
        )
        return self._with_rows(again.jitted, layout, found, result)

    def _with_rows(
        self, jitted: Jitted, layout: Layout, found: Found, result: ReplayResult
    ) -> ReplayResult:
        leaves, tree = jax.tree_util.tree_flatten(found.inputs)
        count, batch = batch_of(tuple(layout.weights.values()), leaves)
        if count < 2:
            return result

        def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
            if not repeat:
                return None  # a batch of a different size would be compiled again
            chosen, given = np.resize(rows, count), list(leaves)
            for index in batch:
                given[index] = leaves[index][chosen]
            results = _results(jitted, jax.tree_util.tree_unflatten(tree, given))
            looked_at = [results[index] for index in found.targets] or results
            return not all(bool(jax.numpy.isfinite(one).all()) for one in looked_at)

        return with_rows(result, trial, count, result.suspects)

    def _debug(self, jitted: Jitted, found: Found, location: str | None) -> None:
        """Repeat the step in Python, with a debugger before a line."""
        if location is not None:
            debugging.stop_before(location)
            args, kwargs = found.inputs
            with jax.disable_jit():
                jitted.fun(*args, **kwargs)


def _results(jitted: Jitted, inputs: Any) -> list[Any]:
    """Return the results of a call; its arguments are copied, because they may be donated."""
    args, kwargs = jax.tree.map(copied, inputs)
    results: list[Any] = jax.tree_util.tree_leaves(jitted.raw(*args, **kwargs))
    return results
