"""Replacements of loss functions in `torch.nn.functional`, for calls without a graph.

A replacement has the globals of `torch.nn.functional`, because `torch.jit.script` looks up names
from the source of the original there. Everything that the replacement itself needs is in its
closure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch.nn import functional

from mothtrap.adapters.torch.job.step_sampling import StepSampling

Function = Callable[..., Any]

CLASS_LOSSES = ("cross_entropy", "nll_loss")
FUNCTIONS = (
    *CLASS_LOSSES,
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "poisson_nll_loss",
    "gaussian_nll_loss",
    "soft_margin_loss",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
)
"""Losses of a prediction and a target."""


@dataclass(frozen=True, slots=True)
class LossInputs:
    """Arguments of a call to a loss function.

    Attributes:
        name: name of the function.
        given: its arguments by parameter name; omitted ones are missing.
    """

    name: str
    given: Mapping[str, Any]

    @property
    def prediction(self) -> torch.Tensor | None:
        """First argument."""
        value = self.given.get("input")
        return value if isinstance(value, torch.Tensor) else None

    @property
    def target(self) -> torch.Tensor | None:
        """Second argument."""
        value = self.given.get("target")
        return value if isinstance(value, torch.Tensor) else None

    @property
    def reduction(self) -> str:
        """Return the reduction over rows, in PyTorch's terms."""
        value = self.given.get("reduction")
        return value if isinstance(value, str) else "mean"

    @property
    def rows(self) -> int:
        """Return the number of rows of the prediction."""
        prediction = self.prediction
        return int(prediction.shape[0]) if prediction is not None and prediction.ndim else 1

    @property
    def has_hard_targets(self) -> bool:
        """Return whether the target of a class loss is one class per position."""
        target = self.target
        return self.name in CLASS_LOSSES and target is not None and not target.is_floating_point()

    def lightened(self, *, targets: bool) -> LossInputs:
        """Return a copy without graphs and values: tensors have only a shape.

        Args:
            targets: the values of the target are kept.
        """
        light = {
            name: value.to("meta") if isinstance(value, torch.Tensor) else value
            for name, value in self.given.items()
        }
        if targets and self.target is not None:
            light["target"] = self.target.detach()
        return LossInputs(self.name, light)


Tell = Callable[[str, torch.Tensor, Sequence[Any], Mapping[str, Any]], None]


def inputs_of(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> LossInputs:
    """Name the arguments of a call."""
    return LossInputs(name, {**dict(zip(_parameters(name), args, strict=False)), **kwargs})


@functools.cache
def _parameters(name: str) -> tuple[str, ...]:
    names = list(inspect.signature(getattr(functional, name)).parameters)
    return ("input", "target", *names[2:])  # a few functions use another name for the prediction


def mean_of(result: torch.Tensor, inputs: LossInputs) -> torch.Tensor:
    """Return the mean loss per row for any reduction, as a number on the loss's device."""
    value = result.detach()
    if value.numel() != 1:
        return value.float().mean()
    if inputs.reduction != "sum":
        return value.reshape(()).clone()
    target, prediction = inputs.target, inputs.prediction
    count: torch.Tensor | int = prediction.numel() if prediction is not None else 1
    if inputs.has_hard_targets and target is not None:
        count = (target != inputs.given.get("ignore_index", -100)).sum().clamp(min=1)
    return torch.div(value.reshape(()), max(count, 1) if isinstance(count, int) else count)


def observed(
    original: Function, report: Tell, drop_own_frame: Function, sampling: StepSampling
) -> Function:
    """Create the replacement of a loss function.

    Args:
        original: the function; its `__name__` is one of `FUNCTIONS`.
        report: called with name, result and arguments of every call that returned.
        drop_own_frame: removes the replacement from the traceback of its exceptions.
        sampling: determines when nothing is reported.
    """
    is_compiling, tensor, name = torch.compiler.is_compiling, torch.Tensor, original.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as err:
            drop_own_frame(err)
            raise
        # While the program is being traced into a graph, the result is not a tensor.
        if not sampling.on and isinstance(result, tensor):
            report(name, result, args, kwargs)
        return result

    return FunctionType(call.__code__, functional.__dict__, name, None, call.__closure__)
