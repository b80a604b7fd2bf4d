"""The policy `on_nonfinite` for compiled steps: withhold the results of bad steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np

from mothtrap.adapters.jax.functions import Layout, kind_of
from mothtrap.core.adapters import Job
from mothtrap.tracing.guard import (
    Fault,
    GuardPolicy,
    bad_gradients,
    bad_loss,
    first_bad,
    large_norm,
)

BY_SCRIPT: Final = "the script applies the gradients itself"
EAGER: Final = "gradients are computed outside compiled functions"


class Guard:
    """Evaluates steps before the script gets their results.

    Args:
        job: receives the results.

    Attributes:
        policy: action for a bad step.
        bounds: whether the gradient norm has a limit, which requires the gradients of every step.
        judges: whether steps are checked.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.policy = GuardPolicy(job.config, job.say, job.ends_here)
        self.bounds = math.isfinite(self.policy.limit)
        self.judges = self.policy.acts or self.bounds

    def judge(self, layout: Layout, loss: Any, gradients: Mapping[str, Any]) -> Fault | None:
        """Return the fault of a step, or None; waits for its loss.

        Args:
            layout: layout of its function.
            loss: one loss, or one for each step of a loop; None if unknown.
            gradients: gradients by name, if known.
        """
        values = np.asarray([] if loss is None else loss, dtype=np.float64).reshape(-1).tolist()
        place = layout.location
        bad = first_bad((value, place) for value in values)
        own = {n: g for n, g in gradients.items() if jnp.issubdtype(g.dtype, jnp.inexact)}
        # One program for each, because they may be on different devices.
        found = jax.device_get([_look(gradient) for gradient in own.values()])
        names = [name for name, (finite, _) in zip(own, found, strict=True) if not finite]
        names.reverse()  # trees of weights usually begin with the layers farthest from the loss
        if bad is not None:
            return bad_loss(*bad, names)
        first = values[0] if values else None
        if names:
            return bad_gradients(names, len(gradients), first, place, ordered=False)
        limit, norm = self.policy.limit, math.hypot(*(float(norm) for _, norm in found))
        return large_norm(norm, limit, first, place) if norm > limit else None

    def report(self, fault: Fault, layout: Layout, step: int, *, applied: bool) -> None:
        """Report the guard's action on a step."""
        policy = self.policy
        onset = policy.found(step)
        if not policy.acts and fault.kind != "norm":
            return  # rules report it
        named = () if applied and policy.acts else (layout.function,)
        action: Literal["reported"] | None = "reported" if applied else None
        self._job.fact(policy.fact(fault, step, named, action=action))
        if not applied:
            policy.announce(fault, step, onset=onset)


def _finite_and_norm(gradient: Any) -> tuple[Any, Any]:
    """Return whether a gradient is finite, and its norm."""
    wide = jnp.abs(gradient).astype(jnp.promote_types(gradient.real.dtype, jnp.float32))
    return jnp.isfinite(gradient).all(), jnp.sqrt(jnp.sum(jnp.square(wide)))


_look: Final[Callable[[Any], tuple[Any, Any]]] = jax.jit(_finite_and_norm)


def without_the_step(layout: Layout, inputs: Any, out: Any) -> Any | None:
    """Return the results of a call with everything carried between steps restored.

    These are results with the structure, shapes and types of an argument, the weights first.

    Args:
        layout: layout of the function.
        inputs: arguments, by position and by name.
        out: its results.

    Returns:
        None if the new weights match no argument.
    """
    args, kwargs = inputs
    given = [*args, *kwargs.values()]
    parts = list(out) if isinstance(out, tuple) else [out]
    covered: set[int] = set()
    first, kept = 0, []
    for part in parts:
        size = len(jax.tree_util.tree_leaves(part))
        # A single array may be anything, because predictions may have the shape of the batch.
        carried = size > 1 or first in layout.updated
        alike = (n for n, one in enumerate(given) if kind_of(one) == kind_of(part))
        place = next(alike, None) if carried else None
        if place is None:
            kept.append(part)
        else:
            kept.append(given.pop(place))
            covered |= set(range(first, first + size))
        first += size
    if not layout.updated or not set(layout.updated) <= covered:
        return None
    if not isinstance(out, tuple):
        return kept[0]
    return type(out)(*kept) if hasattr(out, "_fields") else tuple(kept)
