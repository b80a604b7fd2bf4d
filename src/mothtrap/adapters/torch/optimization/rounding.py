"""Updates of 16-bit weights: the share that is lost to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.optimizers import RoundedUpdates
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

NARROW = (torch.bfloat16, torch.float16)
WATCHED_STEPS = 20
"""Number of steps of the optimizer over which values are compared. A single step proves nothing,
because the next step may move an element to the next representable value.
"""
BEGINS_AT = 2
BEGINS_EVERY = 500
"""First step and interval of inspections, in steps of the optimizer; chosen by hand."""
SAMPLED_ELEMENTS = 4096
SAMPLED_TENSORS = 64
"""Maximum number of inspected tensors per optimizer, and of elements per tensor, to bound the cost.
"""
NAMED = 5


@dataclass(slots=True, eq=False)
class _Sample:
    """Elements of a parameter, their earlier values, and whether each has had a gradient since."""

    parameter: torch.Tensor
    before_N: torch.Tensor
    reached_N: torch.Tensor


@dataclass(slots=True, eq=False)
class _Look:
    """An inspection over several steps; `rate` is the smallest learning rate in them."""

    since: int
    samples: list[_Sample]
    left: int = WATCHED_STEPS
    rate: float = float("inf")


class RoundingObserver:
    """Tracks some elements of 16-bit parameters over a few steps."""

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._looks: ByIdentity[Optimizer, _Look | None] = ByIdentity()
        self._begins_at: ByIdentity[Optimizer, int] = ByIdentity()

    def stepping(self, optimizer: Optimizer) -> None:
        """Start a sample if due, and record which elements get an update."""
        look = self._looks.get(optimizer)
        if look is None:
            own = self._optimizers.steps_of(optimizer)
            if own < (self._begins_at.get(optimizer) or BEGINS_AT):  # light steps are left out
                return
            self._begins_at[optimizer] = own + BEGINS_EVERY
            look = self._begin(optimizer)
            if look is None:
                return
            self._looks[optimizer] = look
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        look.rate = min([look.rate, *rates])
        for sample in look.samples:
            if sample.parameter.grad is not None:
                sample.reached_N |= _elements(sample.parameter.grad) != 0

    def applied(self, optimizer: Optimizer) -> None:
        """Compare the values at the end of the sample."""
        look = self._looks.get(optimizer)
        if look is None:
            return
        look.left -= 1
        if not look.left:
            self._looks[optimizer] = None
            self._report(optimizer, look)

    def _begin(self, optimizer: Optimizer) -> _Look | None:
        narrow = [
            parameter
            for parameter in parameters(optimizer)
            if parameter.dtype in NARROW and is_plain(parameter) and parameter.grad is not None
        ]
        if not narrow:
            return None
        samples = []
        for parameter in narrow[:: -(-len(narrow) // SAMPLED_TENSORS)]:
            before_N = _elements(parameter).clone()
            reached_N = torch.zeros_like(before_N, dtype=torch.bool)
            samples.append(_Sample(parameter, before_N, reached_N))
        return _Look(self._job.grouper.step, samples)

    def _report(self, optimizer: Optimizer, look: _Look) -> None:
        counts: list[tuple[int, int, str]] = []
        for sample in look.samples:
            same_N = (_elements(sample.parameter) == sample.before_N) & sample.reached_N
            name = self._optimizers.name_of(sample.parameter)[0]
            counts.append((int(same_N.sum()), int(sample.reached_N.sum()), name))
        worst = sorted(counts, key=lambda count: -count[0] / max(count[1], 1))
        kinds = {sample.parameter.dtype for sample in look.samples}
        self._job.recorder.notes.observe(
            RoundedUpdates(
                step=self._job.grouper.step,
                since=look.since,
                optimizer=self._optimizers.add(optimizer).name,
                dtypes=tuple(sorted(type_name(kind) for kind in kinds)),
                elements=sum(reached for _, reached, _ in counts),
                unchanged=sum(same for same, _, _ in counts),
                learning_rate=look.rate,
                layers=tuple(name for _, _, name in worst[:NAMED]),
            )
        )


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same evenly spaced elements of a tensor in every call; shape (N,)."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, -(-flat.numel() // SAMPLED_ELEMENTS))]
