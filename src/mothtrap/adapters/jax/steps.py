"""Convert calls to compiled functions to steps and evaluations of a training run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakSet

import jax
import numpy as np

from mothtrap.adapters.jax.donations import Again, has_room, mean_of
from mothtrap.adapters.jax.evaluations import OF_EVALUATIONS, Evaluations
from mothtrap.adapters.jax.functions import Layout, Traced, series_of
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.step_sampling import LookBudget
from mothtrap.adapters.jax.tensors import Tensors
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.facts.losses import LossSeries

MOST_WAITING: Final = 8
"""Maximum number of light steps with pending losses; with more, the oldest is awaited."""


@dataclass(slots=True)
class Call:
    """A call to a function that runs training steps, held until its loss is known.

    Attributes:
        inputs: arguments, by position and by name, for the search for the cause.
        loss, rate: arrays, possibly still in transfer.
        shown: result that the function itself returned as its loss, if known.
        updated: the new weights.
        count: number of rows of all calls so far, if `loss` is their sum.
        again: how to recreate its inputs, if the call donates them.
        skipped: its results were not passed to the script.
    """

    jitted: Jitted | None
    layout: Layout
    inputs: Any
    loss: Any = None
    shown: Any = None
    updated: Sequence[Any] = ()
    rate: Any = None
    count: Any = None
    again: Again | None = None
    skipped: bool = False

    def is_ready(self) -> bool:
        """Return whether the loss can be read without waiting."""
        if self.loss is None or not hasattr(self.loss, "is_ready") or self.loss.is_deleted():
            return True
        return bool(self.loss.is_ready())

    def losses(self) -> list[float]:
        """Return the loss of each step of the call; waits for it."""
        if self.loss is None:
            return []
        with suppress(RuntimeError):  # donated to a later call
            values_N = np.asarray(self.loss, dtype=np.float64).reshape(-1)
            return values_N.tolist() if self.layout.repeats else [float(values_N.mean())]
        return []

    def shown_loss(self) -> float | None:
        """Return the mean of the loss returned by the function; waits for it."""
        with suppress(RuntimeError):  # donated to a later call
            return mean_of(self.shown) if self.shown is not None else None
        return None


class TakesSteps(Protocol):
    """Takes snapshots of calls with known losses."""

    def unsound(self, call: Call, previous: Call | None) -> None:
        """Take a snapshot of the first call with a non-finite loss."""

    def sound(self, call: Call) -> None:
        """Take a snapshot of a call if it is due or requested."""


class Steps:
    """Converts the calls of one process to steps.

    Args:
        job: receives the observations.
        tensors: tensors of weights and gradients.
        taker: taker of snapshots.
        budget: budget of full steps.

    Attributes:
        evaluations: calls between the steps.
    """

    def __init__(self, job: Job, tensors: Tensors, taker: TakesSteps, budget: LookBudget) -> None:
        self._job, self._tensors, self._taker = job, tensors, taker
        self._budget = budget
        self._waiting: deque[Call] = deque()
        self._weights: set[int] = set()
        self._held: list[Any] = []  # kept alive, so that their ids are not reused
        self.evaluations = Evaluations(job, self.wait_for)
        self.broken: Callable[[Call, Call | None], None] | None = None
        self._previous: Call | None = None
        self._broken: WeakSet[Traced] = WeakSet()
        self._totals: dict[str, tuple[float, float]] = {}

    @property
    def next(self) -> int:
        """Number of the step that the next call makes."""
        return self._job.now.step + len(self._waiting)

    @property
    def has_made_any(self) -> bool:
        """Return whether compiled functions run the steps of this training run."""
        return bool(self._weights or self._waiting)

    def is_broken(self, jitted: Jitted | None) -> bool:
        """Return whether a function has returned a non-finite loss."""
        return jitted is not None and jitted.traced in self._broken

    def is_full(self) -> bool:
        """Return whether the next call must be captured in full."""
        step = self.next
        return self._job.is_full(step) and self._budget.allows(step)

    def add(self, call: Call, updated: Sequence[Any], *, full: bool) -> None:
        """Process a call that has returned.

        Args:
            call: call that made one or more steps.
            updated: the new weights, in the order of `Layout.weights`; empty if they are lost.
            full: the observations belong to this call, which is closed immediately.
        """
        self.end_evaluation()
        self._weights, self._held = {id(leaf) for leaf in updated}, []
        call.updated = updated
        self._waiting.append(call)
        if full:
            before = leaves_at(call.inputs, tuple(call.layout.weights.values()))
            self.wait_for(updated)
            if updated and not call.layout.repeats:  # the changes of many steps are larger
                with self._budget.look():
                    self._tensors.take_changes(tuple(call.layout.weights), before, updated)
        self.settle(all_of_them=full)

    def begins(self, layout: Layout, inputs: Any) -> bool:
        """Return whether a call is the first of a step whose gradients the script applies."""
        if not layout.gradients or not layout.weights:
            return False
        weights = leaves_at(inputs, tuple(layout.weights.values()))
        return {id(leaf) for leaf in weights} != self._weights

    def add_gradients(
        self, call: Call, weights: Sequence[Any], gradients: Sequence[Any] | None
    ) -> None:
        """Process a call that returned gradients, which the script applies itself.

        Args:
            call: a call with the weights of the previous call belongs to the same step.
            weights: its weights.
            gradients: None if they are not to be inspected.
        """
        numbers = {id(leaf) for leaf in weights}
        if numbers == self._weights:
            return
        self.end_evaluation()
        self._weights, self._held = numbers, list(weights)
        names = tuple(call.layout.weights)
        if gradients is not None:
            self._tensors.take("weight", names, weights)
            self._tensors.take("gradient", names, gradients)
        self._waiting.append(call)
        self.settle(all_of_them=gradients is not None)

    def settle(self, *, all_of_them: bool = False) -> None:
        """Close the steps whose losses are known, waiting for them on request."""
        while self._waiting:
            call = self._waiting[0]
            late = len(self._waiting) > MOST_WAITING
            if not (all_of_them or late or call.is_ready()):
                return
            self._waiting.popleft()
            self._close(call)

    def wait_for(self, arrays: Any) -> None:
        """Wait until arrays are computed; the wait counts as training time."""
        with self._job.waiting():
            jax.block_until_ready(arrays)

    def _close(self, call: Call) -> None:
        layout, job = call.layout, self._job
        if not call.is_ready():
            self.wait_for(call.loss)
        losses = call.losses()
        if call.count is not None and losses:
            losses = self._since(layout.function, losses[0], float(np.asarray(call.count)))
        if call.rate is not None:
            with suppress(RuntimeError):
                job.scalar("lr", layout.function, float(np.mean(np.asarray(call.rate))))
        if call.again is not None:
            call.again.note(job.now.step, call.shown_loss())
        if not all(map(math.isfinite, losses)) and not self.is_broken(call.jitted):
            if call.jitted is not None:
                self._broken.add(call.jitted.traced)
            if self.broken is not None and call.jitted is not None:
                job.contain_part("first bad operation", self.broken, call, self._previous)
            job.contain_part("snapshots", self._taker.unsound, call, self._previous)
        else:
            job.contain_part("snapshots", self._taker.sound, call)
        if self.broken is not None:
            self._keep(call)
        series, place = series_of(layout), layout.location
        if losses:
            job.stood_ready((LossSeries,))
        job.stood_ready(OF_EVALUATIONS)
        for loss in losses:
            job.step(
                [Losses(series=series, value=loss, location=place)],
                optimizer=layout.function,
                skipped=call.skipped,
            )
        if not losses:
            job.step(optimizer=layout.function)

    def _keep(self, call: Call) -> None:
        """Keep the inputs of a call until the next one, whose loss its gradients may affect."""
        leaves = jax.tree_util.tree_leaves(call.inputs)
        gone = any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
        held = not (gone or self.is_broken(call.jitted)) and has_room(leaves)
        self._previous = call if held else None

    def _since(self, function: str, total: float, count: float) -> list[float]:
        """Return the mean loss of a call from the totals of all calls."""
        before, rows = self._totals.get(function, (0.0, 0.0))
        if count <= rows:  # the totals started over
            before, rows = 0.0, 0.0
        self._totals[function] = total, count
        return [(total - before) / (count - rows)] if count > rows else []

    def end_evaluation(self) -> None:
        """Report the evaluation that ended before the next step."""
        if self.evaluations.are_open:
            self.settle(all_of_them=True)
            self.evaluations.end()

    def finish(self) -> None:
        """Close everything that is still open."""
        self.settle(all_of_them=True)
        self.end_evaluation()


def leaves_at(tree: Any, indices: Sequence[int]) -> list[Any]:
    """Return some leaves of a tree."""
    leaves = jax.tree_util.tree_leaves(tree)
    return [leaves[index] for index in indices]
