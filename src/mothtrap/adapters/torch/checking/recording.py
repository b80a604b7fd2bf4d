"""Record the first steps of a script, and pause it at the start of a later one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.forwarding import RecordedCall
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.adapters.torch.checking.unsaved import UnsavedState, unsaved_state
from mothtrap.adapters.torch.job.naming import unwrapped
from mothtrap.adapters.torch.job.randomness import RandomStates
from mothtrap.adapters.torch.losses.backwards import scalar_root
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.adapters.torch.replaying.handing import Handed
from mothtrap.tracing.source import frames

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Place = tuple[str, int, str]
"""Kind of an event, number of its loader, and `file:line`."""
Gradient = Literal["none", "zero", "some"]
MAX_BATCHES = 10
"""Number of stored batches per loader. Chosen by hand: enough to distinguish batches."""
MAX_PREDICTION = 1 << 24
"""Maximum number of copied values of a loss function's arguments (64 MB); chosen by hand."""
MAX_TABLE = 1 << 18
"""Maximum number of values of a model's arguments kept for each of the latest steps (1 MB); chosen
by hand.
"""
MAX_WEIGHTS = 1 << 26
"""Maximum number of values of a model whose initial state is kept (256 MB); chosen by hand."""


@dataclass(slots=True)
class Iteration:
    """Events of one iteration of the script's loop.

    Attributes:
        calls: calls to models, with gradients enabled.
        losses: calls of loss functions: name, arguments, `file:line`.
        targets: targets of the calls of loss functions, in order; None for a model that is too
            large.
        batches: batches from loaders, by location.
        backwards: number of backward passes.
        roots: the loss values from which they started.
        optimizers: optimizers that stepped, by identity.
        rate: the largest learning rate of a step; 0 before the first step.
        rng: random states at the start.
        begun_s: monotonic seconds at the start.
        waited_s: seconds spent in loaders.
    """

    rng: Mapping[str, Any]
    calls: list[RecordedCall] = field(default_factory=list)
    losses: list[tuple[LossInputs, str]] = field(default_factory=list)
    targets: list[torch.Tensor | None] = field(default_factory=list)
    batches: dict[Place, list[Any]] = field(default_factory=dict)
    backwards: int = 0
    roots: list[float] = field(default_factory=list)
    optimizers: dict[int, Optimizer] = field(default_factory=dict)
    rate: float = 0.0
    begun_s: float = field(default_factory=time.perf_counter)
    waited_s: float = 0.0


class Recording:
    """Observes the first steps, and copies their inputs without changing anything.

    Args:
        steps: number of loop iterations after which `hold` is called.
        hold: called at the first event of the next iteration.
        scaled: detects losses multiplied by gradient scalers.

    Attributes:
        first: first complete iteration: step 0.
        last: latest complete iteration.
        batches: the latest batches of each loader that fed training.
        tables: call to the model and target of the latest iterations with one small batch.
        initial: parameters and buffers of each model before its first step, by identity of the
            model; None for a large model.
        gradients: of each parameter by identity: `none`, `zero`, or `some`.
        turns: number of complete iterations.
        rates: the largest learning rate of each complete iteration.
        losses: mean loss of the backward passes of each complete iteration.
        seconds: duration of each complete iteration.
        waits_s: seconds of each complete iteration in which loaders prepared batches.
        ends_soon: the iteration in progress is the last one.
    """

    def __init__(self, steps: int, hold: Callable[[], None], scaled: ScaledLosses) -> None:
        self._steps, self._hold = steps, hold
        self.scaled = scaled
        self._states = RandomStates()
        self._start: Place | None = None
        self._run: list[Place] = []
        self._stepped = self._over = False
        self._waiting: dict[Place, bool] = {}
        self._unsaved: dict[int, UnsavedState | None] = {}
        self._fed: set[Place] = set()
        self.tables: list[tuple[RecordedCall, torch.Tensor]] = []
        self.initial: dict[int, tuple[nn.Module, dict[str, torch.Tensor] | None]] = {}
        self._now = Iteration(self._rng())
        self.first: Iteration | None = None
        self.last: Iteration | None = None
        self.batches: dict[Place, list[Any]] = {}
        self.gradients: dict[int, Gradient] = {}
        self.parameters: dict[int, torch.Tensor] = {}
        self.turns = 0
        self.rates: list[float] = []
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self.waits_s: list[float] = []
        self.ends_soon = False

    @property
    def events_of_turn(self) -> int:
        """Number of events that could start an iteration: one per micro-batch."""
        if self.last is None or self._start is None:
            return 1
        kind, _, site = self._start
        if kind == "batch":
            return max(1, len(self.last.batches.get(self._start, ())))
        return max(1, sum(call.location == site for call in self.last.calls))

    @property
    def rng(self) -> Mapping[str, Any]:
        """Random states at the start of the current iteration."""
        return self._now.rng

    def _rng(self) -> dict[str, Any]:
        return dict(self._states.read())

    def _event(self, place: Place) -> None:
        """Record an event; pause the script at the start of an iteration."""
        if self._start is None and not self._stepped:
            self._run.append(place)
        if self._stepped and self._start is not None and self._begins_turn(place):
            self._turn_ended()
            if (self.turns >= self._steps or self.ends_soon) and not self._over:
                self._over = True
                self._hold()

    def _begins_turn(self, place: Place) -> bool:
        """Return whether an event after a step begins the next iteration.

        A batch that is read once per epoch, to print its size, comes before the batches of the
        first iteration, and in none of the next ones.
        """
        if place[0] == "batch" and place in self._run:
            self._start = place
        return place == self._start

    def _turn_ended(self) -> None:
        self.first = self.first or self._now
        self.last = self._now
        self.turns += 1
        self.rates.append(self._now.rate)
        roots = self._now.roots
        self.losses.append(sum(roots) / len(roots) if roots else math.nan)
        self.seconds.append(time.perf_counter() - self._now.begun_s)
        self.waits_s.append(self._now.waited_s)
        # An iteration may contain an evaluation, whose loader is not used for training.
        self._now.batches = {k: v for k, v in self._now.batches.items() if k in self._fed}
        for place, batches in self._now.batches.items():
            kept = self.batches.setdefault(place, [])
            kept += batches
            del kept[:-MAX_BATCHES]
        self._keep_table(self._now)
        self._now, self._stepped = Iteration(self._rng()), False

    def _keep_table(self, turn: Iteration) -> None:
        """Keep the arguments of the model and the loss in an iteration with one small batch."""
        single = all(len(batches) == 1 for batches in turn.batches.values()) and turn.batches
        target = turn.targets[0] if turn.targets else None
        if not single or len(turn.calls) != 1 or target is None:
            self.tables.clear()
            return
        [call] = turn.calls
        values = sum(one.numel() for _, one in trees.tensors((call.args, call.kwargs, target)))
        if values <= MAX_TABLE:
            self.tables = [*self.tables[1 - MAX_BATCHES :], (call, target)]

    # Player

    def ask_loader(self, number: int, site: str, own: Callable[[], Any]) -> Handed | None:
        """Return the loader's own batch, and store a copy."""
        place = ("batch", number, site)
        self._event(place)
        self._waiting = {
            known: False for known, evaluated in self._waiting.items() if not evaluated
        }
        begin = time.perf_counter()
        batch = own()  # may raise StopIteration
        self._now.waited_s += time.perf_counter() - begin
        self._waiting[place] = False
        if not self._over:
            self._now.batches.setdefault(place, []).append(trees.copied(batch))
        return Handed(batch)

    def forward_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """Store a copy of the arguments of a training model call."""
        if next(module.parameters(), None) is None:
            return args, kwargs
        site = frames.user_location() or ""
        if not torch.is_grad_enabled():
            self._run.clear()  # earlier batches were for an evaluation
            self._waiting = dict.fromkeys(self._waiting, True)
            return args, kwargs
        self._fed.update(self._waiting)
        self._waiting.clear()
        self._event(("forward", 0, site))
        self._begins_training()
        if id(module) not in self._unsaved:
            self._unsaved[id(module)] = unsaved_state(unwrapped(module))
            self.initial[id(module)] = module, first_weights(module)
        mixed = torch.is_autocast_enabled("cpu")
        self._now.calls.append(
            RecordedCall(
                module=module,
                args=trees.copied(args),
                kwargs=trees.copied(kwargs),
                rng=self._rng(),
                location=site,
                autocast=torch.get_autocast_dtype("cpu") if mixed else None,
                unsaved=self._unsaved[id(module)],
            )
        )
        return args, kwargs

    def _begins_training(self) -> None:
        """Start an iteration with the batches just before it, at the first training forward."""
        if self._start is None and self._run:
            self._start = self._run[0]

    def loss_called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Store a copy of the first loss's arguments, and the target of each loss."""
        given = loss_inputs(name, args, kwargs)
        prediction = given.prediction
        if not torch.is_grad_enabled():
            return args, kwargs
        target = given.target
        if target is not None and not target.requires_grad:
            fits = target.numel() <= MAX_PREDICTION
            self._now.targets.append(trees.copied(target) if fits else None)
        wanted = not self._now.losses
        if wanted and prediction is not None and prediction.numel() <= MAX_PREDICTION:
            kept = LossInputs(name, trees.copied(dict(given.given)))
            self._now.losses.append((kept, frames.user_location() or ""))
        return args, kwargs

    def step_begins(self, optimizer: Optimizer, closure: bool) -> None:
        """Record which parameters have a gradient."""
        rates = [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
        self._now.rate = max(self._now.rate, *rates)
        if closure:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._gradient_seen(parameter)

    def _gradient_seen(self, parameter: torch.Tensor) -> None:
        key, gradient = id(parameter), parameter.grad
        known: Gradient = self.gradients.get(key, "none")
        self.parameters[key] = parameter
        if known != "some" and gradient is not None:
            dense = gradient.coalesce().values() if gradient.is_sparse else gradient
            known = "some" if dense.count_nonzero() else "zero"
        self.gradients[key] = known

    def step_ended(self, optimizer: Optimizer) -> None:
        """Handle the end of an optimizer step: the next iteration may begin."""
        if self._start is not None:
            self._stepped = True
            self._now.optimizers[id(optimizer)] = optimizer

    def backward_begins(self, tensors: Any, /) -> None:
        """Store the starting value of a backward pass."""
        self._now.backwards += 1
        root = scalar_root(tensors)
        if root is not None:
            self._now.roots.append(self.scaled.value(root))

    def backward_ended(self) -> None:
        """Do nothing."""

    def scaler_stepped(self, optimizer: Optimizer, *, skipped: bool) -> None:
        """Handle a skipped step, which also ends the iteration."""
        if skipped:
            self.step_ended(optimizer)

    def raised(self, error: BaseException) -> None:
        """Do nothing; the end of the process is handled elsewhere."""

    def finish(self) -> None:
        """Handle the end of the script: the current iteration counts if its step was made."""
        if self._stepped and not self._over:
            self._turn_ended()
            self._over = True


def first_weights(module: nn.Module) -> dict[str, torch.Tensor] | None:
    """Return copies of a model's parameters and buffers by name; None for a large model."""
    held = weights_of(module)
    if sum(tensor.numel() for tensor in held.values()) > MAX_WEIGHTS:
        return None
    return {name: tensor.detach().clone() for name, tensor in held.items()}


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return a model's parameters and buffers by name, without the parameters of lazy layers."""
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {k: one for k, one in held.items() if not is_lazy(one)}


def loss_inputs(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> LossInputs:
    """Return the arguments of a loss of `torch.nn.functional` by name."""
    named = dict(zip(("input", "target"), args[:2], strict=False))
    if len(args) > 2 and name in ("cross_entropy", "nll_loss"):
        named["weight"] = args[2]
    return LossInputs(name, {**named, **kwargs})
