"""Faults of steps, and the policy `on_nonfinite`: one definition for all frameworks.

An adapter reads the losses and gradients of a step. This module finds the fault, determines how the
step is handled, and writes the message for the user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mothtrap.core.config import Config
from mothtrap.core.errors import NonFiniteStepError
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.runs import STOPPED

MAX_NAMES: Final = 4
"""Maximum number of named affected parameters."""
MAX_MESSAGES: Final = 3
"""Maximum number of onsets that are printed immediately; the verdict counts all steps."""

HUGE_NORM: Final = 2.0**64
"""Gradient norm whose square overflows float32, which optimizers and clipping compute in."""

ACTIONS: Final[dict[str, Literal["reported", "skipped", "stopped", "raised"]]] = {
    "report": "reported",
    "skip": "skipped",
    "stop": "stopped",
    "raise": "raised",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Reason why a step is bad.

    Attributes:
        kind: as in the fact `StepGuarded`.
        reason: the fault in words.
        loss: the value concerned, or the last loss of the step.
        parameters: parameters whose gradients are affected, nearest to the loss first, at most
            `MAX_NAMES`.
        concerned: number of affected parameters.
        location: `file:line` of the loss.
    """

    kind: Literal["loss", "gradient", "norm", "worker"]
    reason: str
    loss: float | None = None
    parameters: tuple[str, ...] = ()
    concerned: int = 0
    location: str | None = None


ELSEWHERE: Final = Fault("worker", "another rank has a bad step")
"""Fault of a step that is sound on this rank but bad on another."""


def first_bad(losses: Iterable[tuple[float, str | None]]) -> tuple[float, str | None] | None:
    """Return the first non-finite loss with its location; None if all are finite."""
    return next((loss for loss in losses if not math.isfinite(loss[0])), None)


def bad_loss(value: float, location: str | None, names: Sequence[str] = ()) -> Fault:
    """Return the fault for a non-finite loss.

    Args:
        value: value of the loss.
        location: line of the loss.
        names: parameters whose gradients are not finite, nearest to the loss first.
    """
    word = "NaN" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
    where = f" ({location})" if location else ""
    return _fault("loss", f"the loss is {word}{where}", value, names, location)


def bad_gradients(
    names: Sequence[str],
    count: int,
    loss: float | None,
    location: str | None,
    *,
    ordered: bool = True,
) -> Fault:
    """Return the fault for non-finite gradients.

    Args:
        names: parameters of these gradients, nearest to the loss first.
        count: number of all gradients of the step.
        loss: last loss of the step.
        location: line of that loss.
        ordered: whether the order of `names` is the order of computation.
    """
    nearest = f"; nearest to the loss is {names[0]}" if names and ordered else ""
    reason = f"{len(names)} of {count} gradients hold NaN or infinite values{nearest}"
    return _fault("gradient", reason, loss, names, location)


def large_norm(norm: float, limit: float, loss: float | None, location: str | None) -> Fault:
    """Return the fault for a gradient norm above `max_gradient_norm`."""
    reason = f"the gradient norm is {norm:.4g} (max_gradient_norm = {limit:g})"
    return _fault("norm", reason, loss, (), location)


def huge_gradients(norm: float, loss: float | None, location: str | None) -> Fault:
    """Return the fault for finite gradients with a norm above `HUGE_NORM`."""
    reason = f"the gradient norm is {norm:.4g}, and its square is not finite in float32"
    return _fault("gradient", reason, loss, (), location)


def _fault(
    kind: Literal["loss", "gradient", "norm"],
    reason: str,
    loss: float | None,
    names: Sequence[str],
    location: str | None,
) -> Fault:
    return Fault(kind, reason, loss, tuple(names[:MAX_NAMES]), len(names), location)


class GuardPolicy:
    """One job's policy for bad steps: decides how to handle them and prints messages.

    Args:
        config: what the user has set.
        say: prints one line for the user.
        before_stop: called when the policy is about to end the training.

    Attributes:
        name: the policy.
        limit: limit on the gradient norm; infinite without a limit.
        acts: whether an unsound step is prevented.
        unsound_step: the latest step with a fault.
    """

    def __init__(
        self,
        config: Config,
        say: Callable[[str], None],
        before_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._say, self._before_stop = say, before_stop
        self.name = config.on_nonfinite
        self.limit = config.max_gradient_norm or math.inf
        self.acts = self.name != "report"
        self.unsound_step = -2
        self._printed = 0

    def found(self, step: int, count: int = 1) -> bool:
        """Record a bad step; return whether it is an onset (the step before was good).

        Args:
            step: step with the fault.
            count: number of steps that one call of the framework makes.
        """
        before, self.unsound_step = self.unsound_step, step
        return before < step - count

    def fact(
        self,
        fault: Fault,
        step: int,
        optimizers: Sequence[str],
        *,
        applied: Sequence[str] = (),
        action: Literal["reported", "refused"] | None = None,
    ) -> StepGuarded:
        """Return the record of a bad step.

        Args:
            fault: fault of the step.
            step: number of the step.
            optimizers: optimizers that did not step, or should not have.
            applied: other optimizers of the step, which had already stepped.
            action: `reported` if the policy had no effect and the step was applied, `refused` if
                the script itself did not apply it; None for the action of the policy.
        """
        return StepGuarded(
            step=step,
            action=action or ACTIONS[self.name],
            fault=fault.kind,
            reason=fault.reason,
            optimizers=tuple(optimizers),
            applied=tuple(applied) if self.acts else (),
            parameters=fault.parameters,
            concerned=fault.concerned,
            location=fault.location,
        )

    def announce(self, fault: Fault, step: int, *, onset: bool) -> None:
        """Print that a step was not applied: the end of the job, or one of the first onsets."""
        if self.name == "stop":
            self._say(
                f"mothtrap: stopped at step {step} (on_nonfinite = stop): {fault.reason}; no part "
                "of this step was applied"
            )
        elif self.name == "skip" and onset and fault.kind != "worker":
            if self._printed >= MAX_MESSAGES:
                return
            self._printed += 1
            is_last = self._printed == MAX_MESSAGES
            last = "; the verdict counts further steps" if is_last else ""
            self._say(
                f"mothtrap: step {step} was not applied (on_nonfinite = skip): {fault.reason}{last}"
            )

    def ending(self, fault: Fault, step: int) -> SystemExit | NonFiniteStepError | None:
        """Return the exception that the policy raises in the training; None under `skip`."""
        if self.name == "stop":
            self._before_stop()
            return SystemExit(STOPPED)
        if self.name != "raise":
            return None
        left = fault.concerned - len(fault.parameters)
        more = f" and {left} more" if left > 0 else ""
        named = ", ".join(fault.parameters)
        concerned = f"; affected parameters: {named}{more}" if named else ""
        return NonFiniteStepError(
            f"step {step} was not applied: {fault.reason}{concerned}; "
            "the policy is on_nonfinite = raise",
            step=step,
            loss=fault.loss,
            parameters=fault.parameters,
            location=fault.location,
        )
