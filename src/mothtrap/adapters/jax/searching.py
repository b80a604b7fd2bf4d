"""The step that broke, repeated from inputs that are held or made again."""

from __future__ import annotations

from typing import Any

import jax

from mothtrap.adapters.jax import origin
from mothtrap.adapters.jax.donations import Again, NotTheSame
from mothtrap.adapters.jax.functions import Layout
from mothtrap.adapters.jax.steps import Call, leaves_at
from mothtrap.tracing.adapter_job import AdapterJob


def search(job: AdapterJob, call: Call, previous: Call | None) -> None:
    """Report what broke a call that returned a loss that is not finite, or why it is not known.

    Args:
        job: takes the facts.
        call: the first with such a loss.
        previous: the call before, where its inputs are held.
    """
    jitted, layout, step = call.jitted, call.layout, job.now.step
    assert jitted is not None
    try:
        inputs = _inputs(call, call.again)
        for fact in origin.nonfinite_inputs(layout, inputs, step=step):
            job.fact(fact)
        targets: tuple[int, ...] = () if layout.loss is None else (layout.loss,)
        if not _are_finite(layout, inputs):  # the gradients of the call before have broken them
            same = previous is not None and previous.jitted is jitted
            again = call.again.before() if call.again is not None else None
            if again is None and not same:
                raise _Unknown("the weights were not finite before the step")
            inputs = _inputs(previous if previous is not None and same else call, again)
            targets = layout.updated
            if not _are_finite(layout, inputs):
                raise _Unknown("the weights were not finite before the steps that are held")
    except _Unknown as why:
        job.blind("the first bad operation", str(why))
        return
    found = origin.first_bad_operation(jitted, *inputs, step=step, targets=targets)
    if found is not None:
        job.fact(found)


class _Unknown(Exception):
    """A step cannot be repeated; says why."""


def _inputs(call: Call, again: Again | None) -> Any:
    """Return the arguments of a call, made again where they were given away."""
    jitted, inputs = call.jitted, call.inputs
    assert jitted is not None
    if jitted.is_mapped:
        raise _Unknown("the step is mapped over devices by pmap")
    if again is not None:
        if jitted.raw.trace(*inputs[0], **inputs[1]).jaxpr.effects:
            raise _Unknown("the steps before would have to be repeated, and call back into Python")
        try:
            inputs = again.inputs(call.layout)
        except NotTheSame as other:
            raise _Unknown(f"the steps before it are not the same again: {other}") from None
    elif is_given_away(inputs):
        raise _Unknown("the step gave its inputs away (donated), and none were kept")
    if not all_here(inputs):
        raise _Unknown("arrays are spread over processes")
    return inputs


def _are_finite(layout: Layout, inputs: Any) -> bool:
    """Return whether the weights that a call is given are finite."""
    weights = leaves_at(inputs, tuple(layout.weights.values()))
    return all(bool(jax.numpy.isfinite(one).all()) for one in weights)


def is_given_away(inputs: Any) -> bool:
    """Return whether an argument was donated to the call, and is gone."""
    leaves = jax.tree_util.tree_leaves(inputs)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


def all_here(inputs: Any) -> bool:
    """Return whether all arrays lie in this process."""
    leaves = jax.tree_util.tree_leaves(inputs)
    return all(leaf.is_fully_addressable for leaf in leaves if isinstance(leaf, jax.Array))
