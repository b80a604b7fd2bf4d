"""Player that changes no call of the script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking.recording import Arguments
from mothtrap.adapters.torch.replaying.handing import Handed


class IdlePlayer:
    """Leaves every call of the script unchanged; see `replaying.interception.Player`."""

    def ask_loader(self, _number: int, _site: str, _own: Callable[[], Any], /) -> Handed | None:
        """Do not intervene."""
        return None

    def forward_called(
        self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """Leave the arguments as they are."""
        return args, kwargs

    def loss_called(self, _name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Leave the arguments as they are."""
        return args, kwargs

    def step_begins(self, _optimizer: Optimizer, _closure: bool, /) -> None:
        """Do nothing."""

    def step_ended(self, _optimizer: Optimizer) -> None:
        """Do nothing."""

    def backward_begins(self, _tensors: Any, /) -> None:
        """Do nothing."""

    def backward_ended(self) -> None:
        """Do nothing."""

    def scaler_stepped(self, optimizer: Optimizer, *, skipped: bool) -> None:
        """Handle the end of a step that a scaler skips."""
        if skipped:
            self.step_ended(optimizer)

    def raised(self, _error: BaseException) -> None:
        """Do nothing."""
