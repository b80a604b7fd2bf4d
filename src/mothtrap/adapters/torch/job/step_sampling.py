"""Step sampling: in a skipped step, every hook returns immediately.

Only plain loops are sampled: one optimizer, stepped after a backward pass, without closure, scaler,
or process group, and without a request that needs every step. Skipping ends just after an optimizer
step, so that the next step is observed from its beginning. It ends in the middle of a step at a
non-finite loss, an evaluation, another optimizer, or the end of the job. Values that the user logs
in skipped steps are recorded separately.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.adapters.torch.job.unheard import UNHEARD
from mothtrap.capture.grouper import ClosedStep, Grouper
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.step_sampling import LongSteps
from mothtrap.core.config import Config
from mothtrap.core.steps import Mode

STEPS_OFF = 10_000
"""Interval of observed steps if nothing is captured, because this may still change."""
ALIKE_STEPS = 32
"""Consecutive similar steps that must be observed before skipping starts."""


class SampledJob(Protocol):
    """Interface of the job whose steps are sampled; see `adapters.torch.job.Job`."""

    config: Config
    recorder: Recorder[torch.Tensor]
    grouper: Grouper
    contain: Callable[..., Any]

    @property
    def asked_mode(self) -> Mode | None:
        """Return the mode set by the user, if any."""

    def may_sample(self) -> bool:
        """Return whether no request needs each step."""

    def passed_unobserved(self, optimizer: Optimizer, steps: int, whole: bool) -> None:
        """Handle unobserved steps of an optimizer; `whole`: the next step is observed."""


@uncompiled
class StepSampling:
    """Skips observation of short steps; used on the training thread.

    Args:
        job: job of the steps; decides whether steps may be skipped, and is notified at the end.

    Attributes:
        allowed: queried by hooks; without it, nothing is skipped.
        on: whether the step in progress is not watched.
        in_step: the optimizer is in a step that is not watched.
        root: `id` of the model whose forward passes begin steps; its submodules are ignored.
    """

    def __init__(self, job: SampledJob) -> None:
        self._job = job
        self.allowed = self.on = False
        self.root = 0
        self._optimizer: weakref.ref[Optimizer] | None = None
        self._thread = 0
        self._alike = 0
        self._steps_in_this = 0
        self._next = self._first = 0
        self._planned = 0
        self._began_s = self._stepped_s = 0.0
        self._long = LongSteps(0.0)
        self.in_step = self._between = False
        self._logged_step = -1
        self._losses: list[float] = []
        self._rates: list[float] = []
        self._loss = math.nan
        self._backwards = 0

    # Events of observed steps

    def stepped(self, optimizer: Optimizer, *, plainly: bool) -> None:
        """Handle an optimizer step; `plainly`: outside of a backward, and without a closure."""
        same = self._optimizer is not None and self._optimizer() is optimizer
        if not same:
            self._optimizer = weakref.ref(optimizer)
        self._steps_in_this += 1
        self._alike = self._alike + 1 if same and plainly else 0

    def closed(self, closed: ClosedStep) -> None:
        """Determine, after a step was emitted, which step to observe next."""
        once = self._steps_in_this == 1 and closed.micro_batches > 0
        self._steps_in_this = 0
        if closed.skipped or not once:
            self._alike = 0
        self._next = 0
        if self.allowed and self._alike >= ALIKE_STEPS:
            off = self._job.config.capture == "off"  # then observed steps are not read
            next_watched = self._job.recorder.next_watched
            following = closed.step + STEPS_OFF if off else next_watched(closed.step)
            if following > closed.step + 1 and self._job.may_sample():
                self._next = following

    def begins(self, module: nn.Module, trains: bool) -> bool:
        """Handle a model call that may begin a step; return whether the step is skipped."""
        grouper = self._job.grouper
        self._between = False
        if self._logged_step >= 0:
            self._hand_on_logged()
        planned, self._next = self._next - grouper.step, 0
        if planned <= 0 or not (trains and module.training and grouper.knows_no_loss):
            return False
        self._first, self._planned = grouper.step, planned
        self._began_s = self._stepped_s = time.perf_counter()
        self._long = LongSteps(self._job.recorder.sampler.long_s())
        self._thread = threading.get_ident()
        self._losses, self._rates = [], []
        self._loss, self._backwards = math.nan, 0
        self.root, self.on = id(module), True
        return True

    @property
    def passes_by(self) -> bool:
        """Return whether the step in progress is skipped, until another one begins."""
        return self.on or self._between

    # Queries of hooks while steps are skipped

    @property
    def is_between(self) -> bool:
        """Return whether a skipped step was applied and the next step has not begun."""
        return self._between

    def logged(self, begins: bool) -> int:
        """Return the step to which a logged value belongs.

        If that step is skipped, the value is recorded separately, before the next step begins.

        Args:
            begins: this value is known to begin a step.
        """
        if begins and self._between and self._logged_step >= 0:
            self._job.contain(self._hand_on_logged)
        step = self._job.grouper.step - (self._between and not begins)
        if self.passes_by:
            self._logged_step = step
        return step

    def goes_on(self, root: nn.Module) -> bool:
        """Return whether a forward pass belongs to skipped training."""
        if not self._is_here():
            return True
        if self._logged_step >= 0:
            self._job.contain(self._hand_on_logged)
        if root.training and torch.is_grad_enabled() and self._job.asked_mode is None:
            self._between = False
            return True
        self._job.contain(self.resume)
        return False

    def backward_goes_on(self, tensors: Any) -> bool:
        """Return whether to skip observation of a backward pass.

        Its loss is finite, as far as is known here.

        mothtrap does not wait for a number on a device: its value is checked in the next watched
        step.
        """
        if isinstance(tensors, tuple | list) and len(tensors) == 1:
            tensors = tensors[0]
        with UNHEARD.enter():
            known = type(tensors) is torch.Tensor and tensors.is_cpu and tensors.numel() == 1
            loss = float(tensors.item()) if known else math.nan
        finite, is_here = not known or math.isfinite(loss), self._is_here()
        if finite and is_here:
            self._loss, self._backwards = loss, self._backwards + 1
        if finite or not is_here:
            return True
        self._job.contain(self.resume)
        return False

    def begins_to_step(self, optimizer: Optimizer, closure: bool) -> bool:
        """Return whether to skip observation of an optimizer step, possibly with a closure."""
        if self._is_known(optimizer) and not closure:
            self.in_step = True
            return True
        if not self._is_here():
            return True
        self._job.contain(self.resume)
        return False

    def has_stepped(self) -> bool:
        """Count a skipped optimizer step; return whether it was skipped."""
        self.in_step, self._between = False, True
        self._keep_numbers()
        grouper = self._job.grouper
        grouper.step += 1
        before_s, self._stepped_s = self._stepped_s, time.perf_counter()
        are_longer = self._long.are_many(self._stepped_s - before_s)
        if not self.on:  # resumed inside of it
            loss, rate = self._losses[-1:], self._rates[-1:]
            self._job.recorder.rested(grouper.step - 1, grouper.step, loss, rate)
        elif are_longer or grouper.step - self._first >= self._planned:
            self._job.contain(self.resume)
        return True

    def resume(self) -> None:
        """Resume observation."""
        self._hand_on_logged()
        if not self.on:
            return
        self.on = False
        step = self._job.grouper.step
        steps = step - self._first
        optimizer = self._optimizer() if self._optimizer is not None else None
        self._job.recorder.sampler.ended(self._planned, steps, self._stepped_s - self._began_s)
        if steps:
            losses, rates = self._losses[:steps], self._rates[:steps]
            self._job.recorder.rested(self._first, step, losses, rates)
        if optimizer is not None:
            self._job.passed_unobserved(optimizer, steps, self._between)

    def _keep_numbers(self) -> None:
        """Keep loss and learning rate of the finished step; NaN if unknown.

        The loss of several backward passes depends on how the script combines them.
        """
        optimizer = self._optimizer() if self._optimizer is not None else None
        groups = optimizer.param_groups if optimizer is not None else []
        rates = [rate for group in groups if type(rate := group.get("lr")) is float]
        self._rates.append(max(rates) if len(rates) == len(groups) > 0 else math.nan)
        self._losses.append(self._loss if self._backwards == 1 else math.nan)
        self._loss, self._backwards = math.nan, 0

    def _hand_on_logged(self) -> None:
        step, self._logged_step = self._logged_step, -1
        if step >= 0:
            self._job.recorder.emit_logged(step)

    def _is_known(self, optimizer: Optimizer) -> bool:
        return self._optimizer is not None and self._optimizer() is optimizer

    def _is_here(self) -> bool:
        return threading.get_ident() == self._thread


def needs_no_step(config: Config) -> bool:
    """Return whether neither the configuration nor other workers need each step."""
    acts = config.on_nonfinite != "report" or config.max_gradient_norm
    asks = config.digests or config.snapshot_every or config.snapshot_at
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not (acts or asks or group)
