"""Replay a recorded step with a model and a loss from a function of the user.

This is for scripts that cannot be started again. The function has no arguments and returns the
model and the loss, `(model, loss_of)`, where `loss_of(output, *targets)` returns one number:

    def build():
        return Net(width=64), torch.nn.functional.cross_entropy

The targets are the other arguments of the loss in the run. If the run recorded no loss of
PyTorch, it is the whole batch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import torch
from torch import nn

from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.job.naming import strip_wrappers
from mothtrap.adapters.torch.origin.localization import FaultLocalization
from mothtrap.adapters.torch.origin.trials import Trials
from mothtrap.adapters.torch.replaying.conversion import Conversion
from mothtrap.adapters.torch.replaying.restoring import Restoring
from mothtrap.core.errors import ReplayError
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    LossCalled,
    RecordedStep,
    ReferenceDigests,
)
from mothtrap.snapshot.format import Loaded
from mothtrap.snapshot.microbatches import MicroBatches
from mothtrap.statistics.torch.raw import digest
from mothtrap.tracing.snapshots.comparison import compared, raised_at
from mothtrap.tracing.snapshots.outcome import Outcome

Built = tuple[nn.Module, Callable[..., torch.Tensor]]


def build(name: str) -> Built:
    """Call the user's function.

    Args:
        name: `module:function`.

    Raises:
        ReplayError: there is no such function, or it returns something else.
    """
    module_name, _, function = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        made = getattr(importlib.import_module(module_name), function)()
    except (ImportError, AttributeError) as err:
        raise ReplayError(f"--build {name}: {err}; give an existing module:function") from err
    if not isinstance(made, tuple):
        made = (getattr(made, "model", None), getattr(made, "loss", None))
    if len(made) != 2 or not isinstance(made[0], nn.Module) or not callable(made[1]):
        raise ReplayError(
            f"--build {name} returned {type(made).__name__}; expected (model, loss_of): a "
            "torch.nn.Module, and a function of its output and the targets"
        )
    return made[0], made[1]


class BuiltReplay:
    """Replay of a step with a built model.

    Args:
        plan: settings of the replay.
        loaded: the snapshot.
        tracer: names of the created objects.
        outcome: receives the result.
    """

    def __init__(self, plan: ReplayPlan, loaded: Loaded, tracer: Tracer, outcome: Outcome) -> None:
        self._loaded, self._tracer, self._outcome = loaded, tracer, outcome
        self._values = Conversion(loaded.steps, plan)
        self._localization = FaultLocalization(
            plan,
            tracer.book,
            outcome,
            Trials(outcome),
            MicroBatches(loaded.snapshot.steps[-1], loaded.snapshot.truth),
        )
        self._plan = plan

    def run(self, built: Built) -> None:
        """Replay the step, write the result, and end the process."""
        model, loss_of = built
        snapshot = self._loaded.snapshot
        if self._values.dtype is not None:
            model.to(self._values.dtype)
        self._values.install()
        self._tracer.book.add_root(model)
        state = Restoring(snapshot.state, self._loaded.state, self._tracer.known, self._plan.device)
        state.apply()
        model.zero_grad()
        losses: list[torch.Tensor] = []
        error: Exception | None = None
        try:
            for call, targets in _calls(snapshot.steps[-1]):
                losses.append(self._micro_batch(model, loss_of, call, targets))
        except Exception as err:  # the user's code may raise anything
            error = err
        self._outcome.finish(self._result(model, losses, error))

    def _micro_batch(
        self,
        model: nn.Module,
        loss_of: Callable[..., torch.Tensor],
        call: ForwardCalled,
        targets: LossCalled | BatchHanded | None,
    ) -> torch.Tensor:
        self._localization.came(call, lambda: self._values.made_together(call.args, call.kwargs))
        made = self._values.made_together(call.args, call.kwargs)
        args, kwargs = self._localization.picked(call, made)
        rng = call.rng if call.rng is not None else getattr(targets, "rng", None)
        if rng is not None:
            randomness.restore(self._values.made(rng))
        output = model(*args, **kwargs)
        loss = loss_of(output, *self._targets(targets))
        self._localization.loss(loss)
        torch.autograd.backward(loss)
        return loss.detach()

    def _targets(self, event: LossCalled | BatchHanded | None) -> list[Any]:
        if event is None:
            return []
        if isinstance(event, BatchHanded):
            return self._localization.picked(event, [self._values.made(event.value)])
        made = self._values.made_together(event.args, event.kwargs)
        args, kwargs = self._localization.picked(event, made)
        given = [*args, *kwargs.values()]
        return [value for value in given if isinstance(value, torch.Tensor)]

    def _result(
        self, model: nn.Module, losses: list[torch.Tensor], error: Exception | None
    ) -> ReplayResult:
        expected = self._loaded.snapshot.truth
        sites = list(expected.losses) if expected is not None else []
        sites += [f"loss {number}" for number in range(len(sites), len(losses))]
        found = ReferenceDigests(
            losses={
                site: f"{digest(loss):016x}" for site, loss in zip(sites, losses, strict=False)
            },
            gradients={
                strip_wrappers(name): f"{digest(parameter.grad):016x}"
                for name, parameter in model.named_parameters()
                if parameter.grad is not None
            },
            exception=f"{type(error).__name__}: {error}" if error is not None else None,
        )
        bad = tuple(
            strip_wrappers(name)
            for name, parameter in model.named_parameters()
            if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all())
        )
        result = compared(found, expected, tuple(float(loss) for loss in losses), bad)
        if error is not None:
            result = msgspec.structs.replace(result, raised_at=raised_at(error))
        return self._localization.completed(result, self._tracer.optimizers, error)


def _calls(step: RecordedStep) -> Iterator[tuple[ForwardCalled, LossCalled | BatchHanded | None]]:
    """Yield every call to a model with the arguments of its loss; without a loss, the batch."""
    batch: BatchHanded | None = None
    waiting: ForwardCalled | None = None
    for event in step.events:
        if isinstance(event, LossCalled) and waiting is not None:
            yield waiting, event
            waiting = None
            continue
        if isinstance(event, ForwardCalled | BatchHanded) and waiting is not None:
            yield waiting, batch
            waiting = None
        if isinstance(event, BatchHanded):
            batch = event
        elif isinstance(event, ForwardCalled):
            waiting = event
    if waiting is not None:
        yield waiting, batch
