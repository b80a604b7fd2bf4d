"""Digests of saved weights by step, used to recognize a restarted job."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.naming import Root
from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.adapters.torch.optimization.initial import looks_untouched
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.workers import (
    OptimizersNotRestored,
    WeightsNotRestored,
    WeightsReturned,
    WeightsSaved,
)
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch.in_place import glimpse
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

COST_SHARE = 0.01
"""Maximum share of the time since the last digest that a digest may take, because some programs
request the state of a model in every step. Chosen by hand: half of the default overhead.
"""


MAX_KEPT, MAX_LOADS = 256, 16
"""Number of digests that are remembered, and of loaded states that are compared with them."""
MAX_WEIGHTS = 8
"""Number of weights of an optimizer of which some values are remembered."""


class ForwardCount(Protocol):
    """Number of forward passes, which continues when a job is resumed."""

    forwards: int


class SavedWeights:
    """Records digests of saved weights, and finds the step of loaded weights.

    Args:
        job: observed job.
        optimizers: its optimizers.
        evaluated: counts the evaluation forward passes.

    Attributes:
        loads: calls to `load_state_dict` of modules; None if they are not observed.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver, evaluated: ForwardCount) -> None:
        self._job, self._optimizers, self._evaluated = job, optimizers, evaluated
        self._free_from_s = 0.0
        self._new: list[tuple[ContentRef[torch.Tensor], bytes]] = []
        self._kept: dict[str, int] = {}
        self._compared = 0
        self.loads: int | None = None

    def made(self, optimizer: Optimizer) -> None:
        """Remember some values of the weights that a new optimizer of a restarted job gets."""
        if not self._job.job.is_resumed or self._job.grouper.steps_applied:
            return
        for weight in islice(parameters(optimizer), MAX_WEIGHTS):
            self._new.append((ContentRef(weight), glimpse(weight)))

    def state_asked(self, module: nn.Module) -> None:
        """Handle a request for a module's state, as for a checkpoint."""
        root, whole = self._whole(module)
        if root is None or whole is None:
            return
        began_s = time.perf_counter()
        if began_s < self._free_from_s:
            return
        saved = WeightsSaved(
            step=self._job.grouper.steps_applied,
            root=_label(root),
            digest=_digest(whole),
            evaluations=self._evaluated.forwards,
        )
        self._job.recorder.notes.observe(saved)
        if len(self._kept) < MAX_KEPT:
            self._kept.setdefault(saved.digest, saved.step)
        ended_s = time.perf_counter()
        self._free_from_s = ended_s + (ended_s - began_s) / COST_SHARE

    def _whole(self, module: nn.Module) -> tuple[Root | None, nn.Module | None]:
        """Return the trained model that a module is, and its root; None for a part of a model."""
        root = self._job.book.root_of(module)
        whole = root.module() if root is not None else None
        if root is None or whole is None or not self._optimizers.owns_root(root):
            return None, None
        if len(list(module.parameters())) < len(list(whole.parameters())):
            return None, None  # so the whole model is not saved
        return root, whole

    def state_loaded(self, module: nn.Module) -> None:
        """Report a model that got back the weights of an earlier step."""
        step = self._job.grouper.steps_applied
        if not self._kept or self._compared >= MAX_LOADS or step <= min(self._kept.values()):
            return
        root, whole = self._whole(module)
        if root is None or whole is None:
            return
        self._compared += 1
        kept_step = self._kept.get(_digest(whole))
        if kept_step is not None and kept_step < step:
            self._job.recorder.notes.observe(
                WeightsReturned(
                    step=step,
                    module=_label(root),
                    kept_step=kept_step,
                    location=frames.user_location(),
                )
            )

    def step_begins(self) -> None:
        """Resume, before the first step, at the step at which the loaded state was saved."""
        if not self._job.job.is_resumed:
            return
        digests = {
            _label(root): _digest(whole)
            for root in self._job.book.roots
            if (whole := root.module()) is not None and self._optimizers.owns_root(root)
        }
        resumed = self._job.job.resume(digests, self._own_steps())
        if resumed is not None:
            self._evaluated.forwards = resumed.evaluations
            if resumed.loaded and resumed.step:
                self._report_fresh(resumed.step)
            elif resumed.step and self.loads == 0:
                self._report_forgotten(resumed.step)

    def _report_fresh(self, step: int) -> None:
        """Report the optimizers whose averages were not loaded with the weights."""
        alive = [one for _, one in self._optimizers.alive()]
        fresh = [one for one in alive if not any(one.state.values()) and _averages(one)]
        if fresh:
            self._job.recorder.notes.observe(
                OptimizersNotRestored(
                    step=step, optimizers=tuple(type(one).__name__ for one in fresh)
                )
            )

    def _report_forgotten(self, step: int) -> None:
        """Report the optimizers that were loaded without the weights that they belong to."""
        restored = [one for _, one in self._optimizers.alive() if any(one.state.values())]
        roots = [root.module() for root in self._job.book.roots if self._optimizers.owns_root(root)]
        written = any(
            weight is not None and glimpse(weight) != before
            for weight, before in ((reference(), before) for reference, before in self._new)
        )
        if restored and not written:  # weights may also be restored one by one, in place
            self._job.recorder.notes.observe(
                WeightsNotRestored(
                    step=step,
                    optimizers=tuple(type(one).__name__ for one in restored),
                    untouched=looks_untouched(
                        m for whole in roots if whole for m in whole.modules()
                    ),
                )
            )

    def _own_steps(self) -> int | None:
        """Return the number of steps stored in the job's optimizer; None if several have one."""
        known = [optimizer for _, optimizer in self._optimizers.alive()]
        if len(known) != 1:
            return None
        counts = [state.get("step") for state in known[0].state.values() if "step" in state]
        found = [int(c) for c in counts if isinstance(c, int | float | torch.Tensor)]
        return max(found, default=None)


def _label(root: Root) -> str:
    return root.prefix.rstrip(".") or root.label


def _averages(optimizer: Optimizer) -> bool:
    """Return whether an optimizer keeps momentum or averages of squares."""
    kept = ("betas", "momentum", "alpha", "rho")
    return any(group.get(name) for group in optimizer.param_groups for name in kept)


def _digest(module: nn.Module) -> str:
    return f"{arithmetic.fingerprint(list(module.parameters())):016x}"
