"""Repeat the recorded step in the script several times, with one change."""

from __future__ import annotations

import atexit
import copy
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from torch import nn
from torch.nn import functional
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.answered_models import AnsweredModels, leave_weights
from mothtrap.adapters.torch.checking.loader_sets import TARGETS
from mothtrap.adapters.torch.checking.memory_seen import MemorySeen
from mothtrap.adapters.torch.checking.recording import (
    Arguments,
    Place,
    Recording,
    loss_inputs,
    weights_of,
)
from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.losses.backwards import scalar_root
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.adapters.torch.origin.row_selection import batch_size, chosen
from mothtrap.adapters.torch.replaying.handing import Handed
from mothtrap.checks.step import Change
from mothtrap.core.error_texts import in_one_line
from mothtrap.tracing.source import frames

ADAM_RATE = 1e-3
"""Default learning rate of the optimizer that a trial uses instead of the script's."""


class Playing:
    """Runs a trial in a copy of the process; writes each loss to a pipe.

    Args:
        recording: recorded inputs of the steps.
        change: the change that the trial makes.
        steps: number of steps after which the copy ends.
        pipe: file descriptor; receives one line per step with its loss, the share of correctly
            predicted labels, the peak memory so far, and the total memory. A line that starts with
            `!` says why the trial ends early.
    """

    def __init__(self, recording: Recording, change: Change, steps: int, pipe: int) -> None:
        assert recording.last is not None  # an iteration was recorded
        self._turn, self._change, self._steps, self._pipe = recording.last, change, steps, pipe
        self._recording = recording
        self._rng = recording.rng
        self._made = self._number = self._losses_called = 0
        self._has_changed = change.inputs == ""
        self._asked: dict[Place, int] = {}
        self._losses: list[float] = []
        self._right = math.nan
        self._rates: dict[tuple[int, int], Any] = {}
        self._in_step = False
        self._memory = MemorySeen()
        self._waiting = {id(one) for one in self._turn.optimizers.values()}
        self._adam: dict[int, Optimizer] = {}
        self._models: AnsweredModels | None = None
        self._saved: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def begin(self) -> None:
        """Prepare the copy."""
        atexit.register(lambda: self._finish("the script's loop ended"))
        if self._change.fresh:
            self._reset()
        if not self._change.regularized:
            setattr(functional, "dropout", _undropped)  # noqa: B010
        if self._change.predictions == "free":
            try:
                self._models = AnsweredModels(self._turn.calls, free=True)
            except Exception as err:
                self._finish(in_one_line(err))
        if self._change.adam:
            for optimizer in self._turn.optimizers.values():
                self._replace_optimizer(optimizer)

    @torch.no_grad()
    def _reset(self) -> None:
        """Reset the models to their initial weights, and the optimizers to an empty state."""
        for module, state in self._recording.initial.values():
            now = weights_of(module)
            if state is None or any(name not in state for name in now):
                self._finish("the weights before the first step were not kept")
            for name, tensor in now.items():
                tensor.copy_(state[name])
        for optimizer in self._turn.optimizers.values():
            optimizer.state.clear()

    def _replace_optimizer(self, optimizer: Optimizer) -> None:
        owned = [p for group in optimizer.param_groups for p in group["params"]]
        adam = torch.optim.Adam(owned, lr=ADAM_RATE)
        self._waiting.discard(id(optimizer))
        self._waiting.add(id(adam))
        self._adam[id(adam)] = adam

        def step(closure: Callable[[], Any] | None = None) -> Any:
            return adam.step(closure)

        vars(optimizer)["step"] = step

    # Player

    def ask_loader(self, number: int, site: str, _own: Callable[[], Any], /) -> Handed | None:
        """Return a recorded batch; a loader not used for training returns its own."""
        place = ("batch", number, site)
        batches = self._batches(place)
        if not batches:
            return None
        asked = self._asked[place] = self._asked.get(place, -1) + 1
        return Handed(self._rows_of(trees.copied(batches[asked % len(batches)])))

    def _batches(self, place: Place) -> list[Any]:
        if self._change.batches > 1:
            return self._recording.batches.get(place, [])[-self._change.batches :]
        return self._turn.batches.get(place, [])

    def forward_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """Pass recorded arguments to a model without a loader, or change its inputs."""
        if next(module.parameters(), None) is None or not torch.is_grad_enabled():
            return args, kwargs
        if not self._turn.batches and self._number < len(self._turn.calls):
            call = self._turn.calls[self._number]
            if call.module is module and call.location == (frames.user_location() or ""):
                args, kwargs = self._rows_of(trees.copied((call.args, call.kwargs)))
                self._number += 1
        if self._change.inputs == "constant":
            kept = self._targets_among(args, kwargs)
            args, kwargs = trees.mapped(
                (args, kwargs), lambda one: one if id(one) in kept else self._constant(one)
            )
        return args, kwargs

    def _targets_among(self, args: Any, kwargs: Any) -> set[int]:
        """Return the identities of targets that a model is called with, to compute its own loss.

        An autoencoder is called with its target, too, but with no other tensor.
        """
        given = [one for _, one in trees.tensors((args, kwargs)) if one.ndim]
        named = [kwargs[name] for name in TARGETS if isinstance(kwargs.get(name), torch.Tensor)]
        known = [one for one in self._turn.targets if one is not None]
        same = {id(one) for one in given if any(_has_values_of(one, other) for other in known)}
        found = same | {id(one) for one in named}
        return found if len(found) < len(given) else set()

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor:
        same = constant_inputs(tensor)
        self._has_changed = self._has_changed or same is not tensor
        return same

    def loss_called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Pass a recorded target to a loss without a loader, or permute the targets."""
        given = loss_inputs(name, args, kwargs)
        target = given.target
        if target is None or target.requires_grad or not torch.is_grad_enabled():
            return args, kwargs
        is_first = not self._losses_called
        recorded = self._recorded_target()
        if recorded is not None and _takes_place(recorded, target, given.prediction):
            target = self._rows_of([recorded.clone()])[0]
        if self._change.targets == "permuted" and target.ndim:
            target = target.roll(1, 0)
        if is_first:
            self._right = share_right(given, target)
        return with_target(args, kwargs, target)

    def _recorded_target(self) -> torch.Tensor | None:
        """Return the target of the same loss call in the recorded iteration."""
        place = self._losses_called
        self._losses_called += 1
        known = () if self._turn.batches else self._turn.targets
        return known[place] if place < len(known) else None

    def _rows_of(self, value: Any) -> Any:
        rows, size = self._change.rows, batch_size(value)
        if rows and size:
            value = chosen(value, rows, size, repeat=True)
        if self._change.repeats > 1 and size:
            value = chosen(value, (*range(size),) * self._change.repeats, size, repeat=False)
        return value

    def backward_begins(self, tensors: Any) -> None:
        """Record the loss; within an optimizer step, the loss of its first closure call."""
        root = scalar_root(tensors)
        if root is not None and not (self._in_step and self._losses):
            self._losses.append(self._recording.scaled.value(root))

    def backward_ended(self) -> None:
        """Do nothing."""

    def step_begins(self, optimizer: Optimizer, _closure: bool, /) -> None:
        """Change the options of the optimizer for one step."""
        if self._models is not None and self._models.owns(optimizer):
            return
        self._in_step = True
        if self._models is not None:
            self._models.step()
            leave_weights(optimizer)
        groups = () if id(optimizer) in self._adam else optimizer.param_groups
        for place, group in enumerate(groups):
            kept: dict[str, Any] = {k: group[k] for k in ("lr", "weight_decay") if k in group}
            self._saved.append((group, kept))
            rate = self._rate(optimizer, place, group["lr"])
            group["lr"] = rate * self._change.rate * self._change.sweep**self._made
            if not self._change.regularized and "weight_decay" in group:
                group["weight_decay"] = 0.0

    def _rate(self, optimizer: Optimizer, place: int, rate: Any) -> Any:
        """Return the learning rate of a group; its initial value if the schedule is left out."""
        first = self._rates.setdefault((id(optimizer), place), copy.copy(rate))
        return rate if self._change.scheduled else first

    def step_ended(self, optimizer: Optimizer) -> None:
        """Write the loss of a step when all its optimizers are done."""
        if self._models is not None and self._models.owns(optimizer):
            return
        while self._saved:
            group, kept = self._saved.pop()
            group.update(kept)
        self._in_step = False
        self._waiting.discard(id(optimizer))
        if not self._waiting:
            self._turn_ended()

    def _turn_ended(self) -> None:
        if not self._has_changed:
            self._finish("no model is called with a tensor of several rows")
        loss = sum(self._losses) / len(self._losses) if self._losses else math.nan
        memory = " ".join(map(repr, self._memory.now()))
        os.write(self._pipe, f"{loss!r} {self._right!r} {memory}\n".encode())
        self._made += 1
        if self._made >= self._steps:
            self._finish("")
        self._waiting = set(self._adam) or {id(one) for one in self._turn.optimizers.values()}
        self._losses.clear()
        self._asked = {} if self._change.batches == 1 else self._asked
        self._number = self._losses_called = 0
        randomness.restore(self._rng)

    def scaler_stepped(self, optimizer: Optimizer, *, skipped: bool) -> None:
        """Handle the end of a step that a scaler skips."""
        if skipped:
            self.step_ended(optimizer)

    def raised(self, error: BaseException) -> None:
        """Handle an exception in the script, which ends the trial."""
        self._finish(f"the script failed: {in_one_line(error)}")

    def _finish(self, why: str) -> NoReturn:
        if why:
            os.write(self._pipe, f"!{why}\n".encode())
        os._exit(0)


def _has_values_of(tensor: torch.Tensor, target: torch.Tensor) -> bool:
    """Return whether a tensor has the values of a target, possibly in a different shape."""
    alike = tensor.numel() == target.numel() and tensor.dtype == target.dtype
    return alike and torch.equal(tensor.detach().reshape(-1), target.reshape(-1))


def _takes_place(
    recorded: torch.Tensor, target: torch.Tensor, prediction: torch.Tensor | None
) -> bool:
    """Return whether a recorded target fits a call; the call's own target may have fewer rows."""
    if recorded.shape == target.shape:
        return True
    rows = len(prediction) if prediction is not None and prediction.ndim else 0
    alike = recorded.ndim == target.ndim > 0 and recorded.shape[1:] == target.shape[1:]
    return alike and len(recorded) == rows != len(target)


def share_right(given: LossInputs, target: torch.Tensor) -> float:
    """Return the share of labels predicted correctly at the loss.

    NaN for a loss whose targets are not class labels.
    """
    prediction = given.prediction
    if prediction is None or not prediction.numel():
        return math.nan
    if given.name in ("cross_entropy", "nll_loss") and not target.is_floating_point():
        known = target != given.given.get("ignore_index", -100)
        guessed = prediction.detach().argmax(1 if prediction.ndim > 1 else 0)
        if guessed.shape != target.shape:
            return math.nan
        return float((guessed == target)[known].float().mean())
    if given.name.startswith("binary_cross_entropy") and target.shape == prediction.shape:
        least = 0.0 if given.name.endswith("logits") else 0.5
        return float(((prediction.detach() > least) == (target > 0.5)).float().mean())
    return math.nan


def _undropped(input: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:  # noqa: A002  # as PyTorch
    return input


def constant_inputs(tensor: torch.Tensor) -> torch.Tensor:
    """Return a batch with equal rows; the tensor itself if it has fewer than two rows."""
    if not tensor.ndim or len(tensor) < 2:
        return tensor
    same = tensor.detach().mean(0, keepdim=True) if tensor.is_floating_point() else tensor[:1]
    return same.expand_as(tensor).clone()


def with_target(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], target: torch.Tensor
) -> Arguments:
    """Return the arguments of a loss with a different target."""
    if len(args) > 1:
        return (args[0], target, *args[2:]), dict(kwargs)
    return args, {**kwargs, "target": target}
