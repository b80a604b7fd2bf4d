"""Snapshots of steps: arguments of a compiled function, and the calls up to the step."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from mothtrap.adapters.jax.donations import Again, Result, Stretch
from mothtrap.adapters.jax.functions import Layout, series_of
from mothtrap.adapters.jax.leaves import LeafWriter
from mothtrap.adapters.jax.searching import all_here, is_given_away
from mothtrap.adapters.jax.steps import Call
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder, StateCopy
from mothtrap.core.snapshots import BatchHanded, KeptStep, RecordedStep, ReferenceDigests, Tree
from mothtrap.tracing.snapshots.taking import SnapshotsOfSteps, digest


class JaxSnapshotTaker(SnapshotsOfSteps):
    """Takes snapshots of calls with known losses, on the training thread."""

    def unsound(self, call: Call, previous: Call | None) -> None:
        """Take a snapshot of the first call with a non-finite loss.

        Args:
            call: the call with that loss.
            previous: previous call, if its inputs are available: its gradients may have caused the
                fault.
        """
        self.onset("the loss is not finite", functools.partial(self._draft, call, previous))

    def sound(self, call: Call) -> None:
        """Take a snapshot of a call if it is due or requested."""
        self.made(functools.partial(self._draft, call, None))

    def _draft(
        self, call: Call, previous: Call | None, order: SnapshotOrder
    ) -> SnapshotDraft | str:
        step = self._job.now.step
        again = _way_to(call, previous, step)
        if isinstance(again, str):
            return again
        stretch, calls = again.stretch, again.calls
        if why := self.why_too_large(stretch.size + stretch.held):
            return why
        state, fed = LeafWriter("s"), LeafWriter("b")
        content: Tree = {
            "dict": [
                ["function", call.layout.function],
                ["leaves", state.trees(stretch.start)],
            ]
        }
        kept = []
        for place in range(calls + 1):
            value = fed.trees(stretch.later[place - 1]) if place else None
            kept.append(_kept(call.layout, stretch, place, step if place == calls else None, value))
        note = ""
        if call.layout.repeats:
            note = f"one call of {call.layout.function} runs several steps, which are all replayed"
        steps = [KeptStep(recorded=each, arrays={}) for each in kept[:-1]]
        return SnapshotDraft(
            order=order,
            step=step,
            state_step=kept[0].step,
            note=note,
            steps=(*steps, KeptStep(recorded=kept[-1], arrays=fed.arrays)),
            truth=_truth(call, stretch, calls),
            state=StateCopy(
                make=lambda: (content, (*state.missing, *fed.missing)), arrays=state.arrays
            ),
        )


def _way_to(call: Call, previous: Call | None, step: int) -> Again | str:
    """Return a copy of arguments and the calls from there to a call, or why there is none."""
    jitted = call.jitted
    if jitted is None:
        return "gradients were computed outside of any compiled function"
    if jitted.is_mapped:
        return "the step is mapped over devices by pmap"
    if not all_here(call.inputs):
        return "arrays are sharded across processes"
    if call.again is not None:
        return call.again
    if is_given_away(call.inputs):
        return "the step donated its inputs, and no copies were kept"
    leaves, tree = jax.tree_util.tree_flatten(call.inputs)
    if previous is not None and previous.jitted is jitted and not is_given_away(previous.inputs):
        before, of_previous = jax.tree_util.tree_flatten(previous.inputs)
        if of_previous == tree:
            stretch = Stretch(tree, before, [_from_results(call, previous, leaves)])
            stretch.steps[0] = step - 1
            if (loss := previous.shown_loss()) is not None:
                stretch.losses[0] = loss
            return Again(jitted, stretch, 1)
    return Again(jitted, Stretch(tree, leaves), 0)


def _from_results(call: Call, previous: Call, leaves: Sequence[object]) -> list[object]:
    """Return arguments, with weights replaced by their position in the previous results."""
    places = dict(zip(map(id, previous.updated), call.layout.updated, strict=False))
    return [Result(places[id(leaf)]) if id(leaf) in places else leaf for leaf in leaves]


def _kept(
    layout: Layout, stretch: Stretch, place: int, number: int | None, value: Tree
) -> RecordedStep:
    step = number if number is not None else stretch.steps.get(place, place)
    loss = stretch.losses.get(place)
    return RecordedStep(
        step=step,
        events=(BatchHanded(loader=0, site=layout.location or "", value=value),),
        optimizers=(layout.function,),
        losses=(loss,) if loss is not None else (),
    )


def _truth(call: Call, stretch: Stretch, calls: int) -> ReferenceDigests:
    """Return digests of all losses up to the last call, and of its new weights."""
    known = {place: stretch.losses[place] for place in range(calls) if place in stretch.losses}
    updated = {
        name: one
        for name, one in zip(call.layout.weights, call.updated, strict=False)
        if not one.is_deleted()
    }
    losses = digests_of_losses(call.layout, stretch.steps, known, call.shown_loss())
    return ReferenceDigests(
        losses=losses,
        weights={name: digest(np.asarray(one)) for name, one in updated.items()},
        values=tuple(call.losses()),
    )


def digests_of_losses(
    layout: Layout, steps: Mapping[int, int], on_the_way: Mapping[int, float], last: float | None
) -> dict[str, str]:
    """Return digests of the losses by location, and the step if it differs.

    Args:
        layout: layout of the function.
        steps: numbers of the steps, by the position of their call.
        on_the_way: losses of the calls before the last one.
        last: loss of the last call; None if it returns none.
    """
    series = series_of(layout)
    found = {
        f"{series} in step {steps.get(place, place)}": digest(np.float64(loss))
        for place, loss in on_the_way.items()
    }
    return found if last is None else {**found, series: digest(np.float64(last))}
