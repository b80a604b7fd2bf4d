"""Values in half precision: their distance from the ends of its range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.multiples import Multiples
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.modules import HalfPrecision

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

NARROW = torch.float16
"""Type whose range training can exceed; bfloat16 has the range of float32."""
LOOKS_FIRST, LOOKS_EVERY = 3, 50
"""Steps in which values are inspected: the first ones, then one in N."""
MAX_OUTPUTS = 256
"""Maximum number of module outputs inspected in a step."""
MAX_ELEMENTS = 65_536
"""Maximum number of inspected elements of a tensor, from its beginning."""
MAX_REPORTED = 4
"""Maximum number of reported tensors of a kind: the tensors nearest to an end of the range."""

Measured = tuple[str, nn.Module | None, int, torch.Tensor]


class HalfPrecisionObserver:
    """Inspects module outputs and gradients in half precision.

    Under autocast without a gradient scaler, the gradients of float32 weights were computed in half
    precision, so they are inspected as if they were in half precision.

    Attributes:
        looks: outputs of modules are to be reported in this step.
        scales: a gradient scaler is in use.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._outputs: list[Measured] = []
        self._gradients: list[Measured] = []
        self._steps = 0
        self._again = Multiples(LOOKS_EVERY)
        self._autocasts = False
        self.looks = True
        self.scales = False

    def root_called(self) -> None:
        """Handle the start of an outermost forward pass."""
        if self.looks:
            self._autocasts = any(
                torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) is NARROW
                for device in ("cpu", "cuda")
            )

    def returned(self, module: nn.Module, tensors: list[torch.Tensor]) -> None:
        """Handle the return of `tensors` from a module in a forward pass."""
        for tensor in tensors:
            has_room = tensor.numel() and len(self._outputs) < MAX_OUTPUTS
            if tensor.dtype is NARROW and has_room and is_plain(tensor):
                name = f"activation:{self._job.book.module_name(module)}"
                self._outputs.append((name, module, tensor.numel(), _measure(tensor)))

    def stepped(self, optimizer: Optimizer) -> None:
        """Handle the end of an optimizer step, while its gradients still exist."""
        if not self.looks:
            return
        for parameter in parameters(optimizer):
            gradient = parameter.grad
            if gradient is None or not is_plain(gradient) or not gradient.numel():
                continue
            if gradient.is_sparse:
                continue
            computed = self._autocasts and not self.scales and parameter.ndim > 1
            if gradient.dtype is NARROW or (gradient.dtype is torch.float32 and computed):
                name, path = self._optimizers.name_of(parameter)
                module = self._job.book.module_called(path)
                measured = _measure(gradient)
                self._gradients.append((f"gradient:{name}", module, gradient.numel(), measured))

    def closed(self, step: int) -> None:
        """Report the measurements of a closed step."""
        self._steps += 1
        for measured in (self._outputs, self._gradients):
            if measured:
                self._report(measured, step)
                measured.clear()
        again = self._again.passed(step)
        self.looks = self._steps < LOOKS_FIRST or again

    def _report(self, measured: list[Measured], step: int) -> None:
        rows = torch.stack([values for *_, values in measured]).tolist()  # transferred at once
        by_size = sorted(range(len(rows)), key=lambda i: -rows[i][0])[:MAX_REPORTED]
        by_smallness = sorted(range(len(rows)), key=lambda i: -rows[i][1])[:MAX_REPORTED]
        for index in dict.fromkeys(by_size + by_smallness):
            tensor, module, elements, _ = measured[index]
            largest, small, zero = rows[index]
            book = self._job.book
            self._job.recorder.notes.observe(
                HalfPrecision(
                    step=step,
                    tensor=tensor,
                    module=book.module_name(module) if module is not None else "",
                    dtype="float16",
                    elements=elements,
                    largest=largest,
                    limit=torch.finfo(NARROW).max,
                    small=small,
                    zero=zero,
                    location=book.location(module) if module is not None else None,
                )
            )


def _measure(tensor: torch.Tensor) -> torch.Tensor:
    """Return the largest finite absolute value, the share of small nonzero values, and of zeros."""
    with torch.no_grad():
        size = tensor.detach().reshape(-1)[:MAX_ELEMENTS].float().abs()
        finite = torch.where(torch.isfinite(size), size, 0.0)
        zero = (size == 0).float().mean()
        small = ((size > 0) & (size < torch.finfo(NARROW).tiny)).float().mean()
        return torch.stack([finite.max(), small / (1 - zero).clamp_min(1e-9), zero])
