"""Repeat the step that failed, from inputs that were kept or are recomputed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import msgspec

from mothtrap.adapters.jax import origin
from mothtrap.adapters.jax.donations import Again, NotTheSame
from mothtrap.adapters.jax.functions import Layout
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.steps import Call, leaves_at
from mothtrap.core.adapters import Job
from mothtrap.core.fact import Fact
from mothtrap.core.facts.nonfinite import FirstBadOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Origin of the non-finite values in a step.

    Attributes:
        facts: arguments that were not finite, and the first bad operation.
        operation: the first bad operation; None if the step is finite when repeated operation by
            operation.
        inputs: inputs with which it is repeated: the inputs of the previous call if that call
            caused the fault.
        targets: results to check.
    """

    facts: list[Fact]
    operation: FirstBadOperation | None
    inputs: Any
    targets: tuple[int, ...]


class UnknownOrigin(Exception):
    """A step cannot be repeated; the message gives the reason."""


def search(job: Job, call: Call, previous: Call | None) -> None:
    """Report the cause of a non-finite loss, or why it is unknown.

    Args:
        job: receives the facts.
        call: the first call with such a loss.
        previous: previous call, if its inputs are available.
    """
    jitted = call.jitted
    assert jitted is not None

    def before() -> Any:
        same = previous is not None and previous.jitted is jitted
        again = call.again.before() if call.again is not None else None
        if again is None and not same:
            raise UnknownOrigin("the weights were not finite before the step")
        return _inputs(previous if previous is not None and same else call, again)

    try:
        inputs = _inputs(call, call.again)
        for fact in located(jitted, call.layout, inputs, before, step=job.now.step).facts:
            job.fact(fact)
    except UnknownOrigin as why:
        job.blind("the first bad operation", str(why))


def located(
    jitted: Jitted, layout: Layout, inputs: Any, before: Callable[[], Any], *, step: int
) -> Found:
    """Return the operation at which a call failed.

    Args:
        jitted: the compiled function.
        layout: layout of the function.
        inputs: inputs of the call, by position and by name.
        before: returns the inputs of the previous call, whose gradients may have corrupted the
            weights.
        step: number of the step.

    Raises:
        UnknownOrigin: the step in which it began cannot be repeated.
    """
    facts: list[Fact] = [*origin.nonfinite_inputs(layout, inputs, step=step)]
    targets: tuple[int, ...] = () if layout.loss is None else (layout.loss,)
    is_earlier = not _are_finite(layout, inputs)
    if is_earlier:
        inputs, targets = before(), layout.updated or layout.gradients
        if not _are_finite(layout, inputs):
            raise UnknownOrigin("the weights were not finite before the oldest kept step")
    found = origin.first_bad_operation(jitted, *inputs, step=step, targets=targets)
    if found is not None:
        facts.append(found)
        if is_earlier and found.derivative:
            facts.append(_of_gradient(found, step - 1))
    return Found(facts=facts, operation=found, inputs=inputs, targets=targets)


def _of_gradient(found: FirstBadOperation, step: int) -> FirstBadOperation:
    """Return the function whose derivative broke the weights in a step with a finite loss."""
    return msgspec.structs.replace(
        found,
        step=step,
        operation=found.derivative,
        inputs=found.inputs[-1:],
        derivative="",
        backward=True,
    )


def _inputs(call: Call, again: Again | None) -> Any:
    """Return the arguments of a call, recreated if they were donated."""
    jitted, inputs = call.jitted, call.inputs
    assert jitted is not None
    if jitted.is_mapped:
        raise UnknownOrigin("the step is mapped over devices by pmap")
    if again is not None:
        if jitted.raw.trace(*inputs[0], **inputs[1]).jaxpr.effects:
            raise UnknownOrigin(
                "the earlier steps would have to be repeated, but they call back into Python"
            )
        try:
            inputs = again.inputs(call.layout)
        except NotTheSame as other:
            raise UnknownOrigin(f"the earlier steps cannot be repeated exactly: {other}") from None
    elif is_given_away(inputs):
        raise UnknownOrigin("the step donated its inputs, and no copies were kept")
    if not all_here(inputs):
        raise UnknownOrigin("arrays are sharded across processes")
    return inputs


def _are_finite(layout: Layout, inputs: Any) -> bool:
    """Return whether the weights passed to a call are finite."""
    weights = leaves_at(inputs, tuple(layout.weights.values()))
    return all(bool(jax.numpy.isfinite(one).all()) for one in weights)


def is_given_away(inputs: Any) -> bool:
    """Return whether an argument was donated to the call and no longer exists."""
    leaves = jax.tree_util.tree_leaves(inputs)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


def all_here(inputs: Any) -> bool:
    """Return whether all arrays are in this process."""
    leaves = jax.tree_util.tree_leaves(inputs)
    return all(leaf.is_fully_addressable for leaf in leaves if isinstance(leaf, jax.Array))
