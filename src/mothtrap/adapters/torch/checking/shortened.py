"""Shorten a script under check: end its network at a layer, or replace its loss by a dummy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.job.naming import unwrapped
from mothtrap.adapters.torch.losses.loss_calls import FUNCTIONS
from mothtrap.core.check_plan import CheckPlan
from mothtrap.core.errors import nearest

MAX_NAMED = 8
"""Maximum number of layers that a message names."""


class Shortened:
    """A script shortened according to a plan; unchanged by default.

    Args:
        plan: settings: the layer at which networks end, and whether losses are replaced.
    """

    def __init__(self, plan: CheckPlan) -> None:
        self._losses = DummyLosses() if plan.dummy_loss else None
        self._network = EndedNetwork(plan.cut) if plan.cut else None

    def install(self) -> None:
        """Shorten the script until the process ends; call this after its calls are intercepted."""
        if self._losses is not None:
            self._losses.install()
        if self._network is not None:
            self._network.install()

    def why_not(self) -> str:
        """Return why the steps so far were not shortened as planned; empty if they were."""
        if self._network is not None and (why := self._network.why_not()):
            return why
        if self._losses is not None and not self._losses.used:
            return (
                "the script computes its loss without a function of torch.nn.functional, which a "
                "dummy loss could replace"
            )
        return ""


class DummyLosses:
    """Replaces the losses in `torch.nn.functional` with the mean square of their first argument.

    Attributes:
        used: whether one of these losses was called.
    """

    def __init__(self) -> None:
        self.used = False

    def install(self) -> None:
        """Replace the losses until the process ends; call this after losses are intercepted."""
        for name in FUNCTIONS:
            setattr(functional, name, self._standing(getattr(functional, name)))

    def _standing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def dummy(
            input: torch.Tensor,  # noqa: A002  # as in PyTorch
            *_: Any,
            reduction: str = "mean",
            **__: Any,
        ) -> torch.Tensor:
            self.used = True
            squares = input.float().pow(2)
            if reduction == "none":
                return squares.flatten(1).mean(1) if squares.ndim > 1 else squares
            return squares.sum() if reduction == "sum" else squares.mean()

        return dummy


class EndedNetwork:
    """Ends each model with a layer of a given name at that layer.

    Args:
        layer: path of the layer in the model.

    Attributes:
        found: a model with this layer was called.
    """

    def __init__(self, layer: str) -> None:
        self._layer = layer
        self.found = False
        self._names: list[str] = []
        self._depth = 0

    def install(self) -> None:
        """Wrap the calls to models until the process ends."""
        original: Callable[..., Any] = nn.Module._call_impl

        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            part = None if self._depth else self._part(module)
            self._depth += 1
            handle = part.register_forward_hook(_end) if part is not None else None
            try:
                return original(module, *args, **kwargs)
            except _Ended as ended:
                if handle is None:
                    raise
                return ended.output
            finally:
                self._depth -= 1
                if handle is not None:
                    handle.remove()

        setattr(nn.Module, "_call_impl", call)  # noqa: B010  # for the type checker

    def why_not(self) -> str:
        """Return the reason why no network was cut; empty if one was cut."""
        if self.found:
            return ""
        named = ", ".join(self._names[:MAX_NAMED]) + (", ..." if self._names[MAX_NAMED:] else "")
        hint = nearest(self._layer, self._names)
        return f"no model has a layer {self._layer!r}{hint}; the layers are {named}"

    def _part(self, module: nn.Module) -> nn.Module | None:
        """Return the layer of a model; None if the model has no layer with this name."""
        model = unwrapped(module)
        if next(model.parameters(), None) is None:
            return None
        parts = dict(model.named_modules())
        self._names = self._names or [name for name in parts if name]
        self.found = self.found or self._layer in parts
        return parts.get(self._layer)


class _Ended(BaseException):  # not caught by `except Exception` in the script
    """Raised when the layer at which the network ends has been called."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


def _end(_module: nn.Module, _args: Any, output: Any) -> None:
    floating = trees.floating(output)
    raise _Ended(floating[0] if floating else output)
