"""Compare training that continues after a checkpoint with training resumed from it."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import safetensors.torch
import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.idle_player import IdlePlayer
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.adapters.torch.losses.backwards import scalar_root
from mothtrap.adapters.torch.optimization.checkpoints import elements_of
from mothtrap.adapters.torch.replaying.interception import Interception
from mothtrap.checks.restarts import write_whole
from mothtrap.checks.resumed import StepState
from mothtrap.core.check_plan import ResumeOrder

STEPS = 5
"""Number of steps after the checkpoint that are compared; chosen by hand."""


class ResumeNotes(IdlePlayer):
    """Records the state of the first step after a checkpoint, then ends the process.

    Args:
        order: file for the state, and whether the script was resumed.
    """

    def __init__(self, order: ResumeOrder) -> None:
        self._order = order
        self._checkpoint = ""
        self._state: StepState | None = None
        self._rates: list[tuple[float, ...]] = []
        self._losses: list[float] = []
        self._optimizers: dict[int, Optimizer] = {}
        self._roots: list[float] = []
        self._scaled = ScaledLosses()

    def install(self) -> None:
        """Wrap the calls of the script and the functions that save."""
        self._scaled.install()
        Interception(self, follows=True)
        for owner, name in ((torch, "save"), (safetensors.torch, "save_file")):
            setattr(owner, name, self._noticed(getattr(owner, name)))

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def save(value: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if self._losses and not self._order.resumes:
                self._finish()  # the compared checkpoint must not change
            result = original(value, target, *args, **kwargs)
            owned = [p for one in self._optimizers.values() for p in _owned(one)]
            if owned and elements_of(value) >= sum(p.numel() for p in owned):
                named = isinstance(target, str | os.PathLike)
                self._checkpoint = Path(target).name if named else "the checkpoint"
            return result

        return save

    # Player

    def backward_begins(self, tensors: Any, /) -> None:
        """Store the value of the loss."""
        root = scalar_root(tensors)
        if root is not None:
            self._roots.append(self._scaled.value(root))

    def step_begins(self, optimizer: Optimizer, _closure: bool, /) -> None:
        """Record the state of the optimizer and its weights after a checkpoint was written."""
        self._optimizers.setdefault(id(optimizer), optimizer)
        if not self._checkpoint and not self._order.resumes:
            self._roots.clear()
            return
        if self._state is None:
            self._state = _state_of(list(self._optimizers.values()), self._checkpoint)
        rates = tuple(float(group.get("lr", 0.0)) for group in optimizer.param_groups)
        self._rates.append(rates)

    def step_ended(self, _optimizer: Optimizer) -> None:
        """Store the loss of a step; the last step ends the process."""
        if self._state is None or not self._roots:
            return
        self._losses.append(sum(self._roots) / len(self._roots))
        self._roots.clear()
        if len(self._losses) >= STEPS:
            self._finish()

    def raised(self, _error: BaseException) -> None:
        """Handle an exception in the script: the recorded data counts."""
        self._finish()

    def _finish(self) -> NoReturn:
        if self._state is not None:
            state = msgspec.structs.replace(
                self._state, rates=tuple(self._rates), losses=tuple(self._losses)
            )
            write_whole(Path(self._order.results), msgspec.json.encode(state))
        os._exit(0)


def _owned(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _state_of(optimizers: list[Optimizer], checkpoint: str) -> StepState:
    """Return the digests of weights and of the optimizers' tensors."""
    owned = [(one, parameter) for one in optimizers for parameter in _owned(one)]
    moments: dict[str, list[str]] = {}
    for optimizer, parameter in owned:
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor | int | float):
                moments.setdefault(str(name), []).append(digest(value))
    return StepState(
        weights=tuple(digest(parameter) for _, parameter in owned),
        moments={name: tuple(digests) for name, digests in moments.items()},
        checkpoint=checkpoint,
    )


def digest(value: torch.Tensor | float) -> str:
    """Return a digest of the values of a tensor, or of a number."""
    plain = trees.array_of(value) if isinstance(value, torch.Tensor) else repr(float(value))
    data = plain.encode() if isinstance(plain, str) else plain.tobytes()
    return hashlib.blake2b(data, digest_size=8).hexdigest()
