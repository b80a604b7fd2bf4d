"""The step that broke, repeated from inputs that are held or made again."""

from __future__ import annotations

from typing import Any

import jax

from mothtrap.adapters.jax import origin
from mothtrap.adapters.jax.donations import NotTheSame
from mothtrap.adapters.jax.steps import Call
from mothtrap.tracing.adapter_job import AdapterJob


def search(job: AdapterJob, call: Call) -> None:
    """Report what broke a call that returned a loss that is not finite, or why it is not known."""
    jitted, layout = call.jitted, call.layout
    assert jitted is not None
    what, inputs = "the first bad operation", call.inputs
    if jitted.is_mapped:
        job.blind(what, "the step is mapped over devices by pmap")
        return
    if is_given_away(inputs):
        if call.again is None:
            job.blind(what, "the step gave its inputs away (donated), and none were kept")
            return
        if jitted.raw.trace(*inputs[0], **inputs[1]).jaxpr.effects:
            why = "the steps before would have to be repeated, and call back into Python"
            job.blind(what, why)
            return
        try:
            inputs = call.again.inputs(layout)
        except NotTheSame as other:
            job.blind(what, f"the steps before it are not the same again: {other}")
            return
    if not all_here(inputs):
        job.blind(what, "arrays are spread over processes")
        return
    step = job.now.step
    for fact in origin.nonfinite_inputs(layout, inputs, step=step):
        job.fact(fact)
    targets = [layout.loss] if layout.loss is not None else []
    found = origin.first_bad_operation(jitted, *inputs, step=step, targets=targets)
    if found is not None:
        job.fact(found)


def is_given_away(inputs: Any) -> bool:
    """Return whether an argument was donated to the call, and is gone."""
    leaves = jax.tree_util.tree_leaves(inputs)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


def all_here(inputs: Any) -> bool:
    """Return whether all arrays lie in this process."""
    leaves = jax.tree_util.tree_leaves(inputs)
    return all(leaf.is_fully_addressable for leaf in leaves if isinstance(leaf, jax.Array))
