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
from mothtrap.core.facts.workers import OptimizersNotRestored, WeightsNotRestored, WeightsSaved
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch.in_place import glimpse

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

COST_SHARE = 0.01
"""Maximum share of the time since the last digest that a digest may take, because some programs
request the state of a model in every step. Chosen by hand: half of the default overhead.
"""


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
        self.loads: int | None = None

    def made(self, optimizer: Optimizer) -> None:
        """Remember some values of the weights that a new optimizer of a restarted job gets."""
        if not self._job.job.is_resumed or self._job.grouper.steps_applied:
            return
        for weight in islice(parameters(optimizer), MAX_WEIGHTS):
            self._new.append((ContentRef(weight), glimpse(weight)))

    def state_asked(self, module: nn.Module) -> None:
        """Handle a request for a module's state, as for a checkpoint."""
        root = self._job.book.root_of(module)
        whole = root.module() if root is not None else None
        if root is None or whole is None or not self._optimizers.owns_root(root):
            return
        if len(list(module.parameters())) < len(list(whole.parameters())):
            return  # part of a model, so the whole model is not saved
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
        ended_s = time.perf_counter()
        self._free_from_s = ended_s + (ended_s - began_s) / COST_SHARE

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
