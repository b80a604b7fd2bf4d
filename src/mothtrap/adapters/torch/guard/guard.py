"""Check of losses and gradients before each optimizer step, and the policy `on_nonfinite`.

Under `on_nonfinite = "report"`, nothing is changed: the onset is passed to the snapshots.
Under the other policies, `guarded_steps` decides before every step whether to cancel it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.guard.agreement import Agreement
from mothtrap.adapters.torch.guard.gradient_check import look_at, nonfinite_among
from mothtrap.adapters.torch.guard.scaling import steps_by_scaler
from mothtrap.adapters.torch.job.naming import strip_wrappers
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.capture.gradient_look import NONE_SEEN, GradientLook
from mothtrap.capture.grouper import ClosedStep
from mothtrap.tracing.guard import (
    ELSEWHERE,
    HUGE_NORM,
    Fault,
    GuardPolicy,
    bad_gradients,
    bad_loss,
    first_bad,
    huge_gradients,
    large_norm,
)

if TYPE_CHECKING:
    from mothtrap.adapters.torch.optimization.optimizers import Known
    from mothtrap.adapters.torch.snapshots.parts import Parts

MOST_PARTNERS = 8
"""Maximum number of optimizers that are checked together; more usually means one optimizer per
parameter."""


class Guard:
    """Evaluates the steps of one job.

    Attributes:
        policy: action for a bad step.
        acts: whether an unsound step is prevented.
        bounds_norms: whether `max_gradient_norm` is set.
        own_hooks: mothtrap's hooks on an optimizer.
        stopped: the fault for which the job was stopped.
    """

    def __init__(self, tracer: Parts) -> None:
        self._tracer = tracer
        self.policy = GuardPolicy(
            tracer.config,
            tracer.recorder.containment.say,
            lambda: tracer.recorder.before_guard_stops(self._agreement.holds),
        )
        self.acts = self.policy.acts
        self.bounds_norms = math.isfinite(self.policy.limit)
        # Whether the state before a bad step is needed must be known before the step.
        self._waits = self.acts or self.policy.limit < math.inf or tracer.config.snapshots > 0
        self.own_hooks = 0
        self.stopped: Fault | None = None
        self._agreement = Agreement(tracer)
        self._partners: dict[str, frozenset[str]] = {}
        self._joint: dict[str, Fault | None] = {}
        self._judged: set[str] = set()
        self._losses_used = 0
        self._looks: dict[str, GradientLook] = {}
        self._faulty = False
        self._in_backward: Fault | None = None
        self._reported: list[tuple[Fault, str]] = []

    @property
    def unsound_step(self) -> int:
        """Return the latest bad step."""
        return self.policy.unsound_step

    # Events of the tracer

    def looked(self, optimizer: str, look: GradientLook) -> bool:
        """Process captured gradients of an optimizer that is about to step.

        Returns:
            Whether gradients or losses of the step in progress are known not to be finite, or
            gradients to be huge. The method waits for losses on a device only if something needs
            them before the step.
        """
        self._looks[optimizer] = look
        waits = look.is_late and not self._waits
        bad = not waits and (look.nonfinite or look.norm > HUGE_NORM)
        self._faulty = bad or (not waits and self._tracer.losses.nonfinite())
        return self._faulty

    def step_begins(self, known: Known, optimizer: Optimizer) -> None:
        """Handle an optimizer step after its gradients were read; reports the onset."""
        if self.acts:
            return
        name = known.name
        looked = name in self._looks or self.looked(name, NONE_SEEN)
        if math.isfinite(self.policy.limit) or (looked and self._faulty):
            fault = self._judge([optimizer])
            if fault is not None:
                self._take_snapshot(fault)
                if fault.kind == "norm":
                    self._reported.append((fault, name))

    def backward_ended(self) -> None:
        """Handle the end of the outermost backward pass."""
        self._in_backward = None

    def scaler_skipped(self, optimizer: Optimizer) -> None:
        """Handle a step skipped by a gradient scaler, or by the guard under a scaler.

        Scalers try larger scales until gradients overflow, so only a loss that is not finite by
        itself counts as an onset.
        """
        if any(name == self._name(optimizer) for _, name in self._reported):
            return
        if self.acts:
            self._agreement.worst(False)  # an overflow is not a fault, but other ranks wait
        tracer, snapshots = self._tracer, self._tracer.snapshots
        known = tracer.optimizers.add(optimizer)
        tracer.contain_part("snapshots", snapshots.joined, known, optimizer)
        if (bad := first_bad(tracer.losses.of(tracer.grouper.losses))) is not None:
            self._take_snapshot(self._loss_fault(*bad, [optimizer]))
        tracer.contain_part("snapshots", snapshots.fulfil)

    def close(self, closed: ClosedStep) -> None:
        """Record which optimizers step together, and report the guard's action."""
        self._in_backward = None
        if 1 < len(closed.optimizers) <= MOST_PARTNERS:
            together = frozenset(closed.optimizers)
            self._partners.update(dict.fromkeys(closed.optimizers, together))
        if self._reported:
            fault = self._reported[0][0]
            concerned = tuple(dict.fromkeys(name for _, name in self._reported))
            others = [name for name in closed.optimizers if name not in concerned]
            fact = self.policy.fact(
                fault,
                closed.step,
                concerned[:MOST_PARTNERS],
                applied=others[:MOST_PARTNERS],
            )
            self._tracer.recorder.notes.observe(fact)
        self._reported.clear()
        self._joint.clear()
        self._judged.clear()
        self._looks.clear()
        self._losses_used = 0

    def close_agreement(self) -> None:
        """End the agreement, because the job has ended."""
        self._agreement.close()

    # Queries before a step

    def decide(self, optimizer: Optimizer, in_backward: bool) -> Fault | None:
        """Return the fault because of which an optimizer step must not be applied.

        None if it may.
        """
        name = self._name(optimizer)
        if in_backward:
            if self._in_backward is None:
                self._in_backward = self._agreed(self._judge([optimizer]))
            return self._in_backward
        if name in self._joint:
            return self._joint.pop(name)
        if name in self._judged:  # another step, without an observed backward pass
            self._judged.clear()
            self._losses_used = len(self._tracer.grouper.losses)
        partners = self._steps_with(optimizer)
        fault = self._agreed(self._judge([optimizer, *partners]))
        self._judged.add(name)
        for partner in partners:
            self._judged.add(self._name(partner))
            self._joint[self._name(partner)] = fault
        return fault

    def decide_evaluation(self, optimizer: Optimizer, loss: object) -> Fault | None:
        """Return the fault because of which a closure's result must not be applied, or None."""
        self._looks.clear()
        value = _number(loss)
        if value is None:
            return self._agreed(self._judge([optimizer]))
        if not math.isfinite(value):
            return self._agreed(self._loss_fault(value, self._place(), [optimizer]))
        return self._agreed(self._gradient_fault([optimizer], value))

    def cancelled(self, optimizer: Optimizer, fault: Fault) -> None:
        """Handle an optimizer step that was not applied, or was undone."""
        self._reported.append((fault, self._name(optimizer)))

    def ends(self, fault: Fault) -> None:
        """Report the fate of the job after the state before the step was restored."""
        onset = self._take_snapshot(fault)
        if self.policy.name == "stop":
            self.stopped = fault
        self.policy.announce(fault, self._tracer.grouper.step, onset=onset)

    # Evaluation of a step

    def _judge(self, optimizers: Sequence[Optimizer]) -> Fault | None:
        tracer = self._tracer
        losses = tracer.losses.of(tracer.grouper.losses[self._losses_used :])
        if (bad := first_bad(losses)) is not None:
            return self._loss_fault(*bad, optimizers)
        return self._gradient_fault(optimizers, losses[-1][0] if losses else None)

    def _loss_fault(
        self, value: float, place: str | None, optimizers: Sequence[Optimizer]
    ) -> Fault:
        return bad_loss(value, place, self._nonfinite_names(optimizers))

    def _gradient_fault(self, optimizers: Sequence[Optimizer], loss: float | None) -> Fault | None:
        looks = [self._look(optimizer) for optimizer in optimizers]
        norm = math.hypot(*(look.norm for look in looks))
        place = self._place()
        if any(look.nonfinite for look in looks):
            names = self._nonfinite_names(optimizers)
            count = sum(1 for o in optimizers for p in parameters(o) if p.grad is not None)
            return bad_gradients(names, count, loss, place)
        if norm > self.policy.limit:
            return large_norm(norm, self.policy.limit, loss, place)
        if norm > HUGE_NORM and not self.acts:
            return huge_gradients(norm, loss, place)
        return None

    def _look(self, optimizer: Optimizer) -> GradientLook:
        """Return the inspection of the gradients; inspect them if this was not done yet."""
        look = self._looks.pop(self._name(optimizer), None)
        gradients = [p.grad for p in parameters(optimizer) if p.grad is not None]
        hooked = len(getattr(optimizer, "_optimizer_step_pre_hooks", ())) > self.own_hooks
        whole = look is not None and self._says_all(look, len(gradients))
        if look is not None and whole and not (self.acts and hooked):
            return look
        return look_at(gradients, getattr(optimizer, "grad_scale", None))

    def _says_all(self, look: GradientLook, gradients: int) -> bool:
        # A norm that was not computed is NaN, and exceeds no bound.
        has_norm = not math.isfinite(self.policy.limit) or not math.isnan(look.norm)
        return has_norm and look.tensors == gradients

    def _nonfinite_names(self, optimizers: Sequence[Optimizer]) -> tuple[str, ...]:
        own = [p for optimizer in optimizers for p in parameters(optimizer)]
        places = nonfinite_among([p.grad for p in own])
        named = self._tracer.optimizers.name_of
        return tuple(strip_wrappers(named(own[place])[0]) for place in reversed(places))

    def _place(self) -> str | None:
        losses = self._tracer.grouper.losses
        return self._tracer.losses.of(losses[-1:])[0][1] if losses else None

    def _steps_with(self, optimizer: Optimizer) -> list[Optimizer]:
        """Return the optimizers expected to step together, without a backward pass in between.

        These are the optimizers that did so before, and those that have not stepped yet: in the
        first step, every optimizer with gradients may be part of it. There are none under a
        gradient scaler, which handles optimizers one by one.
        """
        together = self._partners.get(self._name(optimizer), frozenset())
        partners = [
            other
            for known, other in self._tracer.optimizers.alive()
            if other is not optimizer
            and known.name not in self._judged
            and (known.name in together or not (known.steps or together))
            and any(p.grad is not None for p in parameters(other))
        ]
        return [] if partners and steps_by_scaler() else partners

    def _agreed(self, fault: Fault | None) -> Fault | None:
        if not self._agreement.worst(fault is not None):
            return None
        return fault or ELSEWHERE

    def _take_snapshot(self, fault: Fault) -> bool:
        """Request a snapshot at an onset, and return True; later bad steps have the same cause."""
        onset = self.policy.found(self._tracer.grouper.step)
        if onset:
            self._tracer.contain_part("snapshots", self._tracer.snapshots.take, fault.reason)
        return onset

    def _name(self, optimizer: Optimizer) -> str:
        return self._tracer.optimizers.add(optimizer).name


def _number(loss: object) -> float | None:
    """Return the value of a closure's result; None if it is not a number."""
    if isinstance(loss, torch.Tensor):
        return float(loss.detach()) if loss.numel() == 1 else None
    return float(loss) if isinstance(loss, int | float) else None
