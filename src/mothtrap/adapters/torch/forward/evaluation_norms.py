"""Batch norms that evaluate with running statistics from few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mothtrap.adapters.torch.forward.modes import is_batch_norm
from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.core.facts.evaluations import EvaluationNorms, NormAverages
from mothtrap.core.steps import Mode
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.naming import NameBook

REPORTED = 8
"""Maximum number of reported evaluations of a module; momentum and batch sizes rarely change."""
LEAST_MOMENTUM = 0.5
"""Momentum from which the latest batch counts as much as all others together."""


@dataclass(slots=True)
class _Batches:
    """Rows of the training batches of one module, and its batch norms with initial averages."""

    new: list[nn.Module]
    last: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    reported: int = 0


class NormStatistics:
    """Records the training batches of batch norms before each evaluation."""

    def __init__(self) -> None:
        self._batches: ByIdentity[nn.Module, _Batches] = ByIdentity()

    def trained(self, module: nn.Module, inputs: Sequence[Any]) -> None:
        """Record a forward pass of a module in training mode."""
        for given in inputs:
            if isinstance(given, torch.Tensor):
                break
        else:
            return
        if not given.ndim:
            return
        batches = self._batches.get(module)
        if batches is None:
            norms = [part for part in module.modules() if is_batch_norm(part)]
            new = [part for part in norms if part.training and _is_new(part)]
            batches = self._batches[module] = _Batches(new)
        batches.last = rows = int(given.shape[0])
        batches.sizes[rows] = batches.sizes.get(rows, 0) + 1

    def averages(self, module: nn.Module, book: NameBook, step: int) -> NormAverages | None:
        """Return, once, the progress of the averages of a module's slowest new batch norm."""
        batches = self._batches.get(module)
        if batches is None or not batches.new or not step:
            return None
        slowest, batches.new = min(batches.new, key=_momentum), []
        updates: Any = slowest.num_batches_tracked
        if updates is None or not is_readable(updates):
            return None
        count = int(updates)
        return NormAverages(
            step=step,
            mode=Mode.EVAL,
            module=book.module_name(slowest),
            momentum=_momentum(slowest),
            updates=count,
            per_step=count / step,
            location=book.location(slowest),
        )

    def evaluated(self, module: nn.Module, book: NameBook, step: int) -> EvaluationNorms | None:
        """Return the statistics that an evaluated module's batch norms use; None without any."""
        batches = self._batches.get(module)
        if batches is None or batches.reported >= REPORTED:
            return None
        batches.reported += 1
        norms = [part for part in module.modules() if is_batch_norm(part) and not part.training]
        quickest = max(norms, key=_momentum, default=None)
        if quickest is None or _momentum(quickest) < LEAST_MOMENTUM:
            batches.reported = REPORTED  # models without batch norms are not inspected again
            return None
        return EvaluationNorms(
            step=step,
            mode=Mode.EVAL,
            module=book.module_name(quickest),
            momentum=_momentum(quickest),
            last_rows=batches.last,
            rows=batches.sizes.most_common(1)[0][0],
            location=book.location(quickest),
        )


def _is_new(norm: nn.Module) -> bool:
    """Return whether a batch norm with a momentum still has its initial averages."""
    mean: Any = norm.running_mean
    momentum: Any = norm.momentum
    if momentum is None:
        return False
    return is_lazy(mean) or (is_readable(mean) and not bool(mean.any()))


def _momentum(norm: nn.Module) -> float:
    """Return the weight of the latest batch; 0 for an average of all batches."""
    momentum = getattr(norm, "momentum", None)
    return float(momentum) if isinstance(momentum, int | float) else 0.0
