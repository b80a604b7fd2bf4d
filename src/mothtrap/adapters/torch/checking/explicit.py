"""Check a model, a loss, and batches that the user passes, within the process."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.forwarding import RecordedCall, RecordedForward
from mothtrap.adapters.torch.checking.playing import (
    ADAM_RATE,
    constant_inputs,
    share_right,
    with_target,
)
from mothtrap.adapters.torch.checking.recorded_step import called_parts, loss_seen
from mothtrap.adapters.torch.checking.recording import Gradient, loss_inputs
from mothtrap.adapters.torch.checking.unsaved import unsaved_state
from mothtrap.adapters.torch.job.randomness import RandomStates, restore
from mothtrap.adapters.torch.losses.loss_calls import FUNCTIONS, LossInputs
from mothtrap.adapters.torch.origin.row_selection import batch_size, chosen
from mothtrap.checks.step import BatchSeen, Change, Forward, LossSeen, ParameterSeen, Trial
from mothtrap.core.errors import MothtrapError

MAX_BATCHES = 5
"""Number of batches of the loader that are used; chosen by hand."""

StepFunction = Callable[[Any], torch.Tensor]
"""Computes the loss of a batch."""


class ExplicitStep:
    """A step of given objects; see `checks.step.Step`.

    Weights, optimizer, modes, gradients, and random states are restored after each trial.

    Args:
        model: the model.
        batches: batches from the loader; the first batch belongs to the recorded step.
        compute: computes the loss of a batch.
        optimizer: optimizer of the model.
    """

    number = 0
    loaded = False
    losses: Sequence[float] = ()

    def __init__(
        self,
        model: nn.Module,
        batches: Sequence[Any],
        compute: StepFunction,
        optimizer: Optimizer,
    ) -> None:
        self._model, self._batches, self._compute = model, batches, compute
        self.given = batches
        self._optimizer = optimizer
        self._rng = dict(RandomStates().read())
        self._right = math.nan
        self.watched = len(batches)
        calls: list[RecordedCall] = []
        losses: list[LossInputs] = []
        with self._kept(), self._seen(calls, losses):
            value = float(self._compute(trees.copied(batches[0])).detach())
        self.forward: Forward | None = RecordedForward(calls[0]) if calls else None
        self.loss: LossSeen | None = loss_seen(losses[0], None, (value,)) if losses else None
        self.target = None if self.loss is None else self.loss.target
        self.peak_rate = max(float(group.get("lr", 0.0)) for group in optimizer.param_groups)
        self.rates: Sequence[float] = (self.peak_rate,) * self.watched
        parts = called_parts(calls[0]) if calls else frozenset[str]()
        self.parameters: Sequence[ParameterSeen] = tuple(self._parameters(parts))

    @classmethod
    def of(
        cls,
        model: nn.Module,
        loader: Iterable[Any],
        loss: Callable[..., Any] | None,
        step: StepFunction | None,
        optimizer: Optimizer | None,
    ) -> ExplicitStep:
        """Create the step for the arguments of `mothtrap.check`.

        Raises:
            MothtrapError: the loader yields no batch.
        """
        batches = [trees.copied(batch) for batch in itertools.islice(loader, MAX_BATCHES)]
        if not batches:
            raise MothtrapError("check: the loader yields no batch")
        owned = [p for p in model.parameters() if p.requires_grad]
        return cls(
            model,
            batches,
            step or (lambda batch: _loss_of(model, _observable(loss), batch)),
            optimizer or torch.optim.Adam(owned, lr=ADAM_RATE),
        )

    def batches(self) -> Sequence[BatchSeen]:
        """Return the batches; see `checks.step.Step`."""
        found = []
        for batch in self._batches:
            calls: list[RecordedCall] = []
            losses: list[LossInputs] = []
            with self._kept(), self._seen(calls, losses):
                self._compute(trees.copied(batch))
            if len(calls) != 1 or not losses or losses[0].target is None:
                return ()
            inputs = RecordedForward(calls[0]).inputs
            found.append(BatchSeen(inputs=inputs, target=trees.array_of(losses[0].target)))
        return found

    def train(self, change: Change, steps: int, seconds: float) -> Trial:
        """Repeat the step with one change; see `checks.step.Step`."""
        if change.predictions:
            return Trial(
                losses=np.array([]), ended=("predictions of a `step=` function cannot be trained")
            )
        until = time.monotonic() + seconds
        losses: list[float] = []
        ended, self._right = "", math.nan
        with self._kept(), self._changed(change) as optimizer:
            batches = self._batches[: change.batches]
            rates = [group["lr"] for group in optimizer.param_groups]
            for number in range(steps):
                if time.monotonic() > until:
                    ended = f"it made {number} of {steps} steps in {seconds:.0f} s"
                    break
                restore(self._rng)
                batch = trees.copied(batches[number % len(batches)])
                size = batch_size(batch)
                if change.rows and size:
                    batch = chosen(batch, change.rows, size, repeat=True)
                if change.sweep != 1.0:
                    for group, rate in zip(optimizer.param_groups, rates, strict=True):
                        group["lr"] = rate * change.sweep**number
                losses.append(self._made(optimizer, batch))
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = group["lr"] if change.scheduled else rate
        return Trial(losses=np.array(losses), ended=ended, right=self._right)

    def _made(self, optimizer: Optimizer, batch: Any) -> float:
        found: list[float] = []

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = self._compute(batch)
            found.append(float(loss.detach()))
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizer.step(closure)  # type: ignore[arg-type]
        return found[0] if found else math.nan

    @contextmanager
    def _changed(self, change: Change) -> Iterator[Optimizer]:
        optimizer = self._optimizer
        if change.adam:
            owned = [p for group in optimizer.param_groups for p in group["params"]]
            optimizer = torch.optim.Adam(owned, lr=ADAM_RATE)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * (1.0 if change.adam else change.rate)
            if not change.regularized and "weight_decay" in group:
                group["weight_decay"] = 0.0
        parts = self._model.modules() if not change.regularized else ()
        for part in parts:
            if isinstance(part, nn.modules.dropout._DropoutNd):
                part.eval()

        def answer(name: str, args: Any, kwargs: Any) -> Any:
            given = loss_inputs(name, args, kwargs)
            target = given.target
            if target is not None:
                self._right = share_right(given, target)
            if change.targets == "permuted" and target is not None and target.ndim:
                return with_target(args, kwargs, target.roll(1, 0))
            return args, kwargs

        def alike(_module: nn.Module, args: Any, kwargs: Any) -> Any:
            return trees.mapped((args, kwargs), constant_inputs)

        hook = None
        if change.inputs == "constant":
            hook = self._model.register_forward_pre_hook(alike, with_kwargs=True)
        try:
            with answered(answer):
                yield optimizer
        finally:
            if hook is not None:
                hook.remove()

    @contextmanager
    def _seen(self, calls: list[RecordedCall], losses: list[LossInputs]) -> Iterator[None]:
        """Record the calls to the model and to losses inside a block."""
        states = RandomStates()

        def before(_module: nn.Module, args: Any, kwargs: Any) -> None:
            copied_args, copied_kwargs = trees.copied((args, kwargs))
            calls.append(
                RecordedCall(
                    module=self._model,
                    args=copied_args,
                    kwargs=copied_kwargs,
                    rng=dict(states.read()),
                    unsaved=unsaved_state(self._model),
                )
            )

        def answer(name: str, args: Any, kwargs: Any) -> Any:
            losses.append(
                LossInputs(name, trees.copied(dict(loss_inputs(name, args, kwargs).given)))
            )
            return args, kwargs

        hook = self._model.register_forward_pre_hook(before, with_kwargs=True)
        try:
            with answered(answer):
                yield
        finally:
            hook.remove()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Restore everything after a block, which uses one thread because its steps are short."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        state = {k: v.detach().clone() for k, v in self._model.state_dict().items()}
        options = copy.deepcopy(self._optimizer.state_dict())
        modes = [(part, part.training) for part in self._model.modules()]
        gradients = [(p, p.grad) for p in self._model.parameters()]
        before = dict(RandomStates().read())
        restore(self._rng)
        self._model.train()
        try:
            yield
        finally:
            self._model.load_state_dict(state)
            self._optimizer.load_state_dict(options)
            for part, mode in modes:
                part.training = mode
            for parameter, gradient in gradients:
                parameter.grad = gradient
            restore(before)
            torch.set_num_threads(threads)

    def _parameters(self, parts: frozenset[str]) -> Iterator[ParameterSeen]:
        found: dict[str, Gradient] = {}
        with self._kept():
            for batch in self._batches:
                self._model.zero_grad()
                self._compute(trees.copied(batch)).backward()  # type: ignore[no-untyped-call]
                for name, parameter in self._model.named_parameters():
                    known = found.get(name, "none")
                    if known != "some" and parameter.grad is not None:
                        known = "some" if parameter.grad.count_nonzero() else "zero"
                    found[name] = known
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad:
                path = name.rpartition(".")[0]
                yield ParameterSeen(
                    name=name,
                    module=path,
                    kind=type(self._model.get_submodule(path)).__name__,
                    gradient=found[name],
                    called=not parts or path == "" or path in parts,
                )


@contextmanager
def answered(answer: Callable[[str, Any, Any], Any]) -> Iterator[None]:
    """Pass the arguments of each loss function call through `answer` inside a block."""
    originals = {name: getattr(functional, name) for name in FUNCTIONS}

    def standing(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = answer(name, args, kwargs)
            return original(*args, **kwargs)

        return call

    for name, original in originals.items():
        setattr(functional, name, standing(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(functional, name, original)


def _observable(loss: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a loss that calls functions of `torch.nn.functional` by name.

    Calls are observed by replacing these functions in their module, which a function that the
    caller already holds, such as `F.mse_loss`, would bypass.
    """
    if isinstance(loss, functools.partial):
        inner = _observable(loss.func)
        assert inner is not None
        return functools.partial(inner, *loss.args, **loss.keywords)
    name = getattr(loss, "__name__", "")
    if name not in FUNCTIONS or getattr(loss, "__module__", "") != functional.__name__:
        return loss
    return lambda *args, **kwargs: getattr(functional, name)(*args, **kwargs)


def _loss_of(model: nn.Module, loss: Callable[..., Any] | None, batch: Any) -> torch.Tensor:
    """Compute the loss of a batch.

    Raises:
        MothtrapError: it is unknown how to compute the loss.
    """
    if isinstance(batch, Mapping):
        output = model(**batch)
        found = getattr(output, "loss", None)
        if loss is None and isinstance(found, torch.Tensor):
            return found
    elif isinstance(batch, list | tuple) and len(batch) > 1 and loss is not None:
        result: torch.Tensor = loss(model(*batch[:-1]), batch[-1])
        return result
    raise MothtrapError(
        f"check: cannot compute the loss of a batch of type {type(batch).__name__}; pass step=, a "
        "function that takes a batch and returns its loss"
    )
