"""Switch a checked process from recording its steps to replaying a step in copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking.recording import Arguments
from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.adapters.torch.replaying.handing import Handed
from mothtrap.adapters.torch.replaying.interception import Player


class Switch:
    """Passes the calls of the script to the active player.

    A copy that runs a trial returns from the recording player with `GoOn`; the same call then goes
    to the player assigned to the copy.

    Attributes:
        player: active player; None before it is set.
    """

    def __init__(self) -> None:
        self.player: Player | None = None

    @property
    def _now(self) -> Player:
        assert self.player is not None  # set before it is installed
        return self.player

    def ask_loader(self, number: int, site: str, own: Callable[[], Any], /) -> Handed | None:
        """Handle a request to a loader for a batch."""
        try:
            return self._now.ask_loader(number, site, own)
        except GoOn:
            return self._now.ask_loader(number, site, own)

    def forward_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """Handle a module call in the user's code."""
        try:
            return self._now.forward_called(module, args, kwargs)
        except GoOn:
            return self._now.forward_called(module, args, kwargs)

    def loss_called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Handle a loss call."""
        return self._now.loss_called(name, args, kwargs)

    def step_begins(self, optimizer: Optimizer, closure: bool, /) -> None:
        """Handle the start of an optimizer step."""
        self._now.step_begins(optimizer, closure)

    def step_ended(self, optimizer: Optimizer) -> None:
        """Handle the end of an optimizer step."""
        self._now.step_ended(optimizer)

    def backward_begins(self, tensors: Any, /) -> None:
        """Handle the start of a backward pass."""
        self._now.backward_begins(tensors)

    def backward_ended(self) -> None:
        """Handle the end of a backward pass."""
        self._now.backward_ended()

    def scaler_stepped(self, optimizer: Optimizer, *, skipped: bool) -> None:
        """Handle a gradient scaler's step or skipped step."""
        self._now.scaler_stepped(optimizer, skipped=skipped)

    def raised(self, error: BaseException) -> None:
        """Handle an exception that leaves the script."""
        self._now.raised(error)
