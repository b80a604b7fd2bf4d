"""The recorded step of a script, with trials in copies of the process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.engines import Engine
from mothtrap.adapters.torch.checking.forwarding import RecordedCall, RecordedForward, hooked
from mothtrap.adapters.torch.checking.recording import Iteration, Recording
from mothtrap.adapters.torch.job.naming import unwrapped
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.checks.step import (
    Array,
    BatchSeen,
    Change,
    Forward,
    LossSeen,
    ParameterSeen,
    Trial,
)
from mothtrap.core.errors import NotApplicable


class RecordedStep:
    """The latest iteration of the script's loop; see `checks.step.Step`.

    Args:
        recording: recording of the observed steps.
        engine: runs trials.
        loaded: weights were loaded before the first step.
        free: all trials train the predictions instead of weights.
    """

    def __init__(
        self, recording: Recording, engine: Engine, *, loaded: bool, free: bool = False
    ) -> None:
        assert recording.last is not None  # an iteration is complete
        assert recording.first is not None
        self._recording, self._engine, self._free = recording, engine, free
        self.number, self.watched = recording.turns - 1, recording.turns
        self.loaded = loaded
        self.forward: Forward | None = forward_of(recording.last)
        self.loss = _loss_seen(recording.first)
        self._parts = _parts_of_a_mean(recording.first, self.loss)
        self.target = _target_of(recording.last)
        self.rates: Sequence[float] = tuple(recording.rates)
        self.losses: Sequence[float] = tuple(recording.losses)
        self.peak_rate = _peak_rate(recording.last)
        self.parameters: Sequence[ParameterSeen] = tuple(self._parameters())

    def batches(self) -> Sequence[BatchSeen]:
        """Return the latest batches; see `checks.step.Step`."""
        return [
            BatchSeen(inputs=RecordedForward(call).inputs, target=trees.array_of(target))
            for call, target in self._recording.tables
        ]

    def train(self, change: Change, steps: int, seconds: float) -> Trial:
        """Repeat the step in a copy of the process, or in a restarted script.

        Raises:
            GoOn: in the copy.
            NotApplicable: the losses of several optimizers depend on one another.
        """
        turn = self._recording.last
        if self._free:
            change = dataclasses.replace(change, predictions="free")
        if turn is not None and len(turn.optimizers) > 1 and turn.backwards > 1:
            raise NotApplicable("several optimizers step in turn, each for its own loss")
        data, in_time = self._engine.played(change, steps, seconds)
        lines = data.decode(errors="replace").split("\n")[:-1]
        made = [tuple(map(float, line.split())) for line in lines if not line.startswith("!")]
        losses = [loss * self._parts for loss, *_ in made]
        ended = next((line[1:] for line in lines if line.startswith("!")), "")
        if not in_time:
            ended = (
                f"it made {len(losses)} of {steps} steps in {seconds:.0f} s, and was then stopped"
            )
        _, right, memory, limit = made[-1] if made else (math.nan,) * 4
        return Trial(
            losses=np.array(losses),
            ended=ended,
            right=right,
            memory_bytes=memory,
            limit_bytes=limit,
        )

    def _parameters(self) -> Iterator[ParameterSeen]:
        for model, call in self._models():
            called = called_parts(call) if call is not None else frozenset()
            for name, parameter in model.named_parameters():
                gradient = self._recording.gradients.get(id(parameter))
                if parameter.requires_grad and gradient is not None:
                    path = name.rpartition(".")[0]
                    yield ParameterSeen(
                        name=name,
                        module=path,
                        kind=type(model.get_submodule(path)).__name__,
                        gradient=gradient,
                        called=not called or path == "" or path in called,
                    )

    def _models(self) -> list[tuple[nn.Module, RecordedCall | None]]:
        assert self._recording.last is not None
        return [(unwrapped(call.module), call) for call in one_each(self._recording.last.calls)]


def one_each(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return the first call of each model, without distributed wrappers."""
    first = list({id(call.module): call for call in reversed(calls)}.values())[::-1]
    return [
        dataclasses.replace(call, module=unwrapped(call.module))
        if isinstance(call.module, nn.parallel.DistributedDataParallel)
        else call
        for call in first
    ]


def forward_of(turn: Iteration) -> RecordedForward | None:
    """Return the first call of the iteration's model; None if it has several models."""
    models = one_each(turn.calls)
    return RecordedForward(models[0]) if len(models) == 1 else None


def called_parts(call: RecordedCall) -> frozenset[str]:
    """Return the paths of the modules that run in a call to the model."""
    found: set[str] = set()
    model = unwrapped(call.module)
    with hooked(model, lambda name, _: found.add(name)), torch.no_grad():
        _quietly(lambda: call.module(*trees.copied(call.args), **trees.copied(call.kwargs)))
    return frozenset(found)


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:  # for the model itself, all modules count as called
        return


def _loss_seen(turn: Iteration) -> LossSeen | None:
    if not turn.losses:
        return None
    given, location = turn.losses[0]
    roots = (*turn.roots, *(turn.backwards * root for root in turn.roots))
    return loss_seen(given, location, roots)


def _target_of(turn: Iteration) -> Array | None:
    target = turn.targets[0] if turn.targets else None
    return None if target is None else trees.array_of(target)


def _peak_rate(turn: Iteration) -> float:
    """Return the largest learning rate that schedules store in the groups of an optimizer."""
    return max(
        float(group.get(name, 0.0))
        for optimizer in turn.optimizers.values()
        for group in optimizer.param_groups
        for name in ("lr", "initial_lr", "max_lr")
    )


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _parts_of_a_mean(turn: Iteration, loss: LossSeen | None) -> int:
    """Return the divisor of each loss that turns the sum of backward passes into a mean."""
    if loss is None or not turn.roots or turn.backwards < 2:
        return 1
    divided = math.isclose(loss.value, turn.backwards * turn.roots[0], rel_tol=1e-3)
    return turn.backwards if divided else 1


def loss_seen(
    given: LossInputs, location: str | None, roots: Sequence[float] = ()
) -> LossSeen | None:
    """Return a loss function call in the form for checks; None without both arguments.

    Args:
        given: the arguments.
        location: `file:line` of the call.
        roots: loss values from which the backward passes of the step started.
    """
    if given.prediction is None or given.target is None:
        return None
    value = math.nan
    function = getattr(functional, given.name)
    with torch.no_grad():
        options = {key: one for key, one in given.given.items() if key not in ("input", "target")}
        mean = {**options, "reduction": "mean"}
        # Autocast computes losses of 16-bit predictions in float32.
        result = function(_wide(given.prediction), _wide(given.target), **mean)
        if isinstance(result, torch.Tensor):
            value = float(result.float().mean())
    return LossSeen(
        operation=given.name,
        value=value,
        prediction=trees.array_of(given.prediction),
        target=trees.array_of(given.target),
        options={
            key: trees.array_of(one) if isinstance(one, torch.Tensor) else one
            for key, one in options.items()
        },
        location=location,
        alone=any(math.isclose(value, root, rel_tol=1e-3) for root in roots),
    )
