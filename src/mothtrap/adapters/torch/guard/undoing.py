"""Copies of the state that an optimizer is about to change, for an undo.

Needed only if a step begins before all of its gradients are known: with a closure, or inside a
backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.optimization.parameter_list import parameters


@dataclass(frozen=True, slots=True)
class _KeptTensor:
    tensor: torch.Tensor
    copy: torch.Tensor

    def restore(self) -> torch.Tensor:
        self.tensor.copy_(self.copy)
        return self.tensor


@dataclass(frozen=True, slots=True)
class _KeptContainer:
    """A dict or list with its previous content."""

    container: Any
    parts: tuple[tuple[Any, Any], ...]

    def restore(self) -> Any:
        values = [(key, _restored(part)) for key, part in self.parts]
        if isinstance(self.container, list):
            self.container[:] = [value for _, value in values]
        else:
            self.container.clear()
            self.container.update(values)
        return self.container


class Kept:
    """Copies of the current parameters and state of an optimizer.

    Tensors and containers are restored in place, so that existing references remain valid.
    Attributes of the optimizer that are neither in its state nor in its groups are not kept.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        with torch.no_grad():
            self._parameters = [_kept(parameter) for parameter in parameters(optimizer)]
            self._state = _kept(optimizer.state)
            self._groups = [
                (group, {key: _kept(value) for key, value in group.items() if key != "params"})
                for group in optimizer.param_groups
            ]

    def restore(self) -> None:
        """Restore the copied state."""
        with torch.no_grad():
            for parameter in self._parameters:
                parameter.restore()
            self._state.restore()
            for group, values in self._groups:
                for key in group.keys() - values.keys() - {"params"}:
                    del group[key]
                group.update({key: _restored(value) for key, value in values.items()})


def evaluates_once(optimizer: Optimizer) -> bool:
    """Return whether an optimizer calls its closure once, before it changes anything."""
    kind = type(optimizer)
    return kind.__module__.startswith("torch.optim.") and kind is not torch.optim.LBFGS


def _kept(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _KeptTensor(value, value.detach().clone())
    if isinstance(value, dict):
        return _KeptContainer(value, tuple((key, _kept(part)) for key, part in value.items()))
    if isinstance(value, list):
        return _KeptContainer(value, tuple((None, _kept(part)) for part in value))
    return value


def _restored(value: Any) -> Any:
    return value.restore() if isinstance(value, _KeptTensor | _KeptContainer) else value
