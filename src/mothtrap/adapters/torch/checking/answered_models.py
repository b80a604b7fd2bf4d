"""Models that return the outputs of a recorded step without any computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.forwarding import RecordedCall
from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.origin.row_selection import batch_size, chosen
from mothtrap.core.errors import NotApplicable

RATE = 0.1
"""Learning rate for predictions that are trained directly, as a share of their size; chosen by
hand.
"""


class AnsweredModels:
    """Makes the models of a recorded step return their recorded outputs.

    Args:
        calls: calls of the models.
        free: train the outputs instead of the weights.

    Raises:
        NotApplicable: there is no output that can be trained.
    """

    def __init__(self, calls: Sequence[RecordedCall], *, free: bool = False) -> None:
        self._leaves: list[torch.Tensor] = []
        self._adam: torch.optim.Optimizer | None = None
        first = {id(call.module): call for call in reversed(calls)}
        for call in first.values():
            output = _computed(call)
            if free:
                output = trees.mapped(output, self._leaf)
            vars(call.module)["forward"] = _answering(call, output, free=free)
        if free and not self._leaves:
            raise NotApplicable("the model has no output with one value for each row")
        if free:
            groups = [{"params": [one], "lr": RATE * _size(one)} for one in self._leaves]
            self._adam = torch.optim.Adam(groups)

    def _leaf(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.ndim:
            return tensor
        leaf = tensor.detach().clone().requires_grad_()
        self._leaves.append(leaf)
        return leaf

    def owns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return whether an optimizer trains the free outputs."""
        return optimizer is self._adam

    def step(self) -> None:
        """Update the free outputs with their gradient."""
        if self._adam is not None:
            self._adam.step()
            self._adam.zero_grad()


def leave_weights(optimizer: torch.optim.Optimizer) -> None:
    """Make the next step of an optimizer leave the weights unchanged."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _computed(call: RecordedCall) -> Any:
    randomness.restore(call.rng)
    with torch.no_grad():
        args, kwargs = trees.copied((call.args, call.kwargs))
        return call.module(*args, **kwargs)


def _answering(call: RecordedCall, output: Any, *, free: bool) -> Callable[..., Any]:
    """Return a function that replaces `forward`."""
    rows = batch_size((call.args, call.kwargs))
    anchor = next((p for p in call.module.parameters() if p.requires_grad), None)

    def differentiable(tensor: torch.Tensor) -> torch.Tensor:
        fresh = tensor.detach().clone()
        if anchor is None or not fresh.is_floating_point():
            return fresh
        return fresh + 0 * anchor.sum().to(fresh)  # so that the backward pass has a graph

    def forward(*args: Any, **kwargs: Any) -> Any:
        if free:
            return output
        found = trees.mapped(output, lambda tensor: tensor.detach().clone())
        size = batch_size((args, kwargs))
        if rows and size and size != rows:
            found = chosen(found, [n % rows for n in range(size)], rows, repeat=False)
        return trees.mapped(found, differentiable)

    return forward


def _size(tensor: torch.Tensor) -> float:
    return max(1.0, float(tensor.detach().abs().mean()))
