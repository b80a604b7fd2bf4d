"""The policy `on_nonfinite` for calls of compiled steps: results are withheld from the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np

from mothtrap.adapters.jax.functions import Layout, kind_of
from mothtrap.core.errors import NonFiniteStepError
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.runs import STOPPED
from mothtrap.tracing.adapter_job import AdapterJob

DONE: Final[dict[str, Literal["skipped", "stopped", "raised"]]] = {
    "skip": "skipped",
    "stop": "stopped",
    "raise": "raised",
}
NAMED: Final = 4
"""Gradients that are named of those concerned."""
SAID: Final = 3
"""Steps left out that are said as they happen; the verdict counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A step that was not sound; `reason` in words."""

    kind: Literal["loss", "gradient"]
    reason: str
    step: int
    loss: float | None = None
    parameters: tuple[str, ...] = ()
    location: str | None = None


class Guard:
    """Judges steps before the script gets what they return.

    Args:
        job: takes what was done.

    Attributes:
        policy: what becomes of an unsound step.
        acts: whether anything is done with one but telling.
    """

    def __init__(self, job: AdapterJob) -> None:
        self._job = job
        self.policy = job.config.on_nonfinite
        self.acts = self.policy != "report"
        self._said = 0

    def judge(
        self, layout: Layout, loss: Any, gradients: dict[str, Any], *, step: int
    ) -> Fault | None:
        """Return what is wrong with a step; waits for its loss.

        Args:
            layout: of its function.
            loss: one, or one for each step of a loop; None where none is known.
            gradients: by name, where the step is looked at in full.
            step: its number.
        """
        values = np.asarray([] if loss is None else loss, dtype=np.float64).reshape(-1)
        for value in values.tolist():
            if not np.isfinite(value):
                word = "NaN" if np.isnan(value) else "infinite"
                where = f" ({layout.location})" if layout.location else ""
                return Fault(
                    kind="loss",
                    reason=f"the loss is {word}{where}",
                    step=step,
                    loss=value,
                    location=layout.location,
                )
        bad = [name for name, one in gradients.items() if not bool(jax.numpy.isfinite(one).all())]
        if not bad:
            return None
        return Fault(
            kind="gradient",
            reason=f"{len(bad)} of {len(gradients)} gradients hold NaN or infinite values",
            step=step,
            loss=float(values[0]) if len(values) else None,
            parameters=tuple(bad[:NAMED]),
            location=layout.location,
        )

    def tell(self, fault: Fault, layout: Layout, *, applied: bool) -> None:
        """Report what is done with a step."""
        done = "reported" if applied else DONE[self.policy]
        self._job.fact(
            StepGuarded(
                step=fault.step,
                action=done,
                fault=fault.kind,
                reason=fault.reason,
                optimizers=() if applied else (layout.function,),
                parameters=fault.parameters,
                concerned=len(fault.parameters),
                location=fault.location,
            )
        )
        if applied or self.policy == "raise" or self._said >= SAID:
            return
        self._said += 1
        what = "was not applied" if self.policy == "skip" else "is the last"
        self._job.recorder.containment.say(
            f"mothtrap: step {fault.step} {what} (on_nonfinite = {self.policy}): {fault.reason}"
        )

    def end(self, fault: Fault) -> None:
        """End the training, or raise, as the policy says.

        Raises:
            SystemExit: under `stop`.
            NonFiniteStepError: under `raise`.
        """
        if self.policy == "stop":
            self._job.recorder.before_guard_stops()
            raise SystemExit(STOPPED)
        if self.policy == "raise":
            named = ", ".join(fault.parameters)
            raise NonFiniteStepError(
                f"step {fault.step} was not applied: {fault.reason}"
                + (f"; parameters concerned: {named}" if named else "")
                + "; the policy is on_nonfinite = raise",
                step=fault.step,
                loss=fault.loss,
                parameters=fault.parameters,
                location=fault.location,
            )


def without_the_step(layout: Layout, inputs: Any, out: Any) -> Any | None:
    """Return the results of a call with all that is carried from step to step as it was before.

    What is carried are results that have the structure, shapes and types of an argument, the
    weights first.

    Args:
        layout: of the function.
        inputs: arguments, by position and by name.
        out: its results.

    Returns:
        None where the new weights have no argument of their kind.
    """
    args, kwargs = inputs
    given = [*args, *kwargs.values()]
    parts = list(out) if isinstance(out, tuple) else [out]
    covered: set[int] = set()
    first, kept = 0, []
    for part in parts:
        size = len(jax.tree_util.tree_leaves(part))
        # One array alone may be anything: predictions are shaped as the batch may be.
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
