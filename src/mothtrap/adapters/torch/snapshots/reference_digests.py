"""Reference digests of a step's losses and gradients."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.capture.grouper import ClosedStep
from mothtrap.core.snapshots import ReferenceDigests
from mothtrap.statistics.digest import digest_bytes
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.raw import digest

MAX_LOSSES = 256
"""Maximum number of losses of a step: micro-batches of accumulation; chosen by hand."""

PAST_STEPS = 256
"""Maximum number of steps whose losses are kept, as in a ring buffer."""


class StepDigests:
    """Stores the losses of the step in progress, and computes its digests.

    Args:
        optimizers: optimizers with the names of their parameters.
        remembers: whether earlier steps may be requested, see `told`.
    """

    def __init__(self, optimizers: OptimizerObserver, *, remembers: bool = False) -> None:
        self._optimizers, self._remembers = optimizers, remembers
        self._losses: dict[str, torch.Tensor] = {}
        self._calls: dict[str, int] = {}
        self._past: dict[int, dict[str, str]] = {}

    def loss(self, site: str, root: torch.Tensor) -> None:
        """Record the starting value of a backward pass, including a scaler's factor.

        Args:
            site: `file:line` of the backward pass.
            root: a single number.
        """
        if len(self._losses) < MAX_LOSSES:
            number = self._calls[site] = self._calls.get(site, 0) + 1
            self._losses[site if number == 1 else f"{site}#{number}"] = root.detach()

    def losses(self) -> dict[str, torch.Tensor]:
        """Return the losses of the step so far, without graphs, by call site."""
        return dict(self._losses)

    def new_step(self) -> None:
        """Discard the step that closed."""
        self._losses.clear()
        self._calls.clear()

    def close(self, closed: ClosedStep) -> None:
        """Discard the step that closed, except for the digests of its losses.

        Losses on an accelerator are skipped, because each would have to be waited for.
        """
        if self._remembers and self._losses and all(root.is_cpu for root in self._losses.values()):
            self._past[closed.step] = {site: _hex(root) for site, root in self._losses.items()}
            if len(self._past) > PAST_STEPS:
                del self._past[next(iter(self._past))]
        self._losses.clear()
        self._calls.clear()

    def told(self, step: int) -> ReferenceDigests | None:
        """Return the losses of an earlier step, as far as they are stored."""
        losses = self._past.get(step)
        return ReferenceDigests(losses=losses) if losses is not None else None

    def report(
        self, optimizers: Iterable[Optimizer], exception: str | None = None
    ) -> ReferenceDigests:
        """Return the digests of the step in progress.

        Args:
            optimizers: optimizers whose gradients count.
            exception: uncaught exception that ended it.
        """
        gradients: dict[str, str] = {}
        for optimizer in optimizers:
            for parameter in parameters(optimizer):
                if parameter.grad is not None:
                    name = self._optimizers.name_of(parameter)[0]
                    gradients[name] = _hex(parameter.grad)
        losses = {site: _hex(root) for site, root in self._losses.items()}
        values = tuple(float(root) for root in self._losses.values() if not root.is_complex())
        return ReferenceDigests(
            losses=losses, gradients=gradients, exception=exception, values=values
        )


def _hex(tensor: torch.Tensor) -> str:
    """Return the digest of a tensor, with a shortcut for the most frequent kind."""
    if (
        type(tensor) is torch.Tensor
        and tensor.dtype in (torch.float32, torch.float64)
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
    ):
        name = type_name(tensor.dtype)
        data = as_array(tensor.detach()).reshape(-1).view(np.uint8)
        return f"{digest_bytes(data, name, tensor.shape):016x}"
    return f"{digest(tensor):016x}"
