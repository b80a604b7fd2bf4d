"""Keras on PyTorch: its optimizers are passed to PyTorch's adapter, which observes the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import torch
from torch.optim import Optimizer

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.fitting import Fitting
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.replacements import Replacements, drop_own_frame

Function = Callable[..., Any]


class Reading:
    """A Keras number that is read from its device only when it may have changed."""

    def __init__(self) -> None:
        self._tensor: torch.Tensor | None = None
        self._version, self._number = -1, 0.0

    def of(self, variable: Any) -> float:
        """Return the value of a variable, which must be the same on each call."""
        tensor: torch.Tensor = variable.value
        if tensor is not self._tensor or tensor._version != self._version:
            self._tensor, self._version = tensor, tensor._version
            self._number = tensor.item()
        return self._number

    def added(self, variable: Any) -> None:
        """Record that Keras incremented the variable."""
        tensor: torch.Tensor = variable.value
        if tensor is self._tensor and tensor._version == self._version + 1:
            self._version, self._number = tensor._version, self._number + 1


@dataclass
class Lent:
    """Gradients passed to an optimizer, set on its weights while PyTorch inspects them.

    Attributes:
        pairs: weights and their gradients, if the weights are wrapped.
    """

    pairs: list[tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=list)
    out: bool = False

    def lend(self) -> None:
        """Set the gradients on the weights."""
        if not self.out:
            self._swap()

    def take_back(self) -> None:
        """Restore the weights' own gradients."""
        if self.out:
            self._swap()

    def _swap(self) -> None:
        self.out = not self.out
        for place, (weight, gradient) in enumerate(self.pairs):
            self.pairs[place] = weight, weight.grad
            weight.grad = gradient


class StandIn(Optimizer):
    """PyTorch stand-in for a Keras optimizer, whose step it calls.

    It does not refer to that optimizer strongly, so both are freed when the script releases it.

    Args:
        settings: settings of that optimizer.
        named: weights that it updates, and their names.

    Attributes:
        names_parameters: parameters have these names, regardless of their modules.
        averages_losses: whether it applies the mean of several micro-batches.
        rate_comes_late: whether its learning rate is known only after its step.
        updates: number of updates according to the optimizer.
        rate: its learning rate, if that is a variable.
    """

    names_parameters = True
    averages_losses = False

    def __init__(
        self, settings: dict[str, float], named: Sequence[tuple[str, torch.Tensor]]
    ) -> None:
        self._call: Function = lambda: None
        self._lent = Lent()
        self.rate_comes_late = False
        self.updates, self.rate = Reading(), Reading()
        super().__init__(named, settings)

    def run(self, call: Function, lent: Lent) -> Any:
        """Run a call as one step; return its result."""
        self._call, self._lent = call, lent
        lent.lend()
        try:
            return type(self).step(self)  # not the one that `Scaling` may have put here
        finally:
            lent.take_back()
            self._call, self._lent = lambda: None, Lent()

    def step(self, closure: Any = None) -> Any:  # noqa: ARG002
        """Run the step of the Keras optimizer."""
        self._lent.take_back()
        result = self._call()
        self._lent.lend()
        return result


class Scaling(torch.amp.GradScaler):
    """Stand-in for the loss scale of a Keras optimizer.

    It is disabled, so it scales nothing; it reports that it is enabled, so its calls are observed.
    """

    def __init__(self) -> None:
        self.reading, self._factor = Reading(), 1.0
        super().__init__("cpu", enabled=False)

    def is_enabled(self) -> bool:
        """Return True, because Keras scales the loss."""
        return True

    def get_scale(self) -> float:
        """Return the scale of the step in progress."""
        return self._factor

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary, because Keras stores the state."""
        return {}

    def scaled(self, loss: Any, result: Any, factor: float) -> None:
        """Record that Keras scaled a loss."""
        self._factor = factor
        self.scale(iter((loss, result)))  # inspected as a pair: the scaled value, and the result

    def run(self, stand_in: StandIn, call: Function, factor: float) -> Any:
        """Make a call that applies or skips an optimizer step."""
        self._factor = factor
        vars(stand_in)["step"] = call
        try:
            return self.step(stand_in)
        finally:
            vars(stand_in).pop("step", None)


class StandIns:
    """Presents each update by a Keras optimizer as a PyTorch step.

    Args:
        replacements: replacements in classes of Keras.
    """

    def __init__(self, replacements: Replacements) -> None:
        self._contain = replacements.contain
        self._made: ByIdentity[Any, StandIn] = ByIdentity()
        self._scalings: ByIdentity[Any, Scaling] = ByIdentity()
        self._names: ByIdentity[torch.Tensor, str] = ByIdentity()
        self._here = _Thread()
        scaling, base = internals.optimizer_types()
        replacements.replace(scaling, "apply", self._around_scaled_apply)
        replacements.replace(base, "apply", self._around_apply)
        replacements.around(base, "build", None, self._built)
        replacements.around(base, "_get_current_learning_rate", None, self._rate_found)
        for kind in (scaling, base):
            replacements.around(kind, "scale_loss", None, self._loss_scaled)

    # Replaced functions

    def _around_apply(self, original: Function) -> Function:
        contain, here, begin, end = self._contain, self._here, self._begin, self._end
        rate_known = self._rate_known

        def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if here.optimizer is not None:
                return original(self, grads, trainable_variables)
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)

            def call() -> Any:
                here.updated = True
                result = original(self, grads, trainable_variables)
                contain(rate_known, self)
                return result

            here.optimizer, here.rate, here.updated = self, None, False
            try:
                run = contain(begin, self, grads, trainable_variables)
                result = original(self, grads, trainable_variables) if run is None else run(call)
                contain(end, self, run is None or here.updated)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.optimizer = here.rate = None
            return result

        return apply

    def _around_scaled_apply(self, original: Function) -> Function:
        contain, here, begin = self._contain, self._here, self._begin_scaled

        def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if here.optimizer is not None:
                return original(self, grads, trainable_variables)
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)
            run = contain(begin, self, trainable_variables)
            try:
                if run is None:
                    return original(self, grads, trainable_variables)
                return run(lambda: original(self, grads, trainable_variables))
            except BaseException as err:
                drop_own_frame(err)
                raise

        return apply

    def _built(self, optimizer: Any, _: Any, args: Sequence[Any], kwargs: Any, __: Any) -> None:
        """Create a stand-in before the first step, so that a replay can restore its state."""
        if _scales(optimizer):
            self._scaling(optimizer)
        if not hasattr(optimizer, "inner_optimizer"):
            self._stand_in(optimizer, args[0] if args else kwargs.get("variables"))

    def _rate_found(self, optimizer: Any, rate: Any, *_: object) -> None:
        if self._here.optimizer is optimizer:
            self._here.rate = rate

    def _loss_scaled(self, optimizer: Any, result: Any, args: Any, kwargs: Any, _: Any) -> None:
        loss = args[0] if args else kwargs.get("loss")
        if result is not loss and _scales(optimizer):
            self._scaling(optimizer).scaled(loss, result, self._factor(optimizer))

    # Updates

    def _begin(self, optimizer: Any, grads: Any, variables: Any) -> Function | None:
        """Return a function that runs the step of an `apply`; None if it only accumulates."""
        stand_in = self._stand_in(optimizer, variables)
        if stand_in is None or _adds_up(optimizer, stand_in):
            return None
        rate = _known_rate(optimizer, stand_in)
        stand_in.rate_comes_late = rate is None
        stand_in.param_groups[0].update(_settings(optimizer, rate))
        lent, factor = Lent(_given(optimizer, grads, variables)), self._factor(optimizer)
        if factor == 1:
            return lambda call: stand_in.run(call, lent)
        scaling = self._scaling(optimizer)
        return lambda call: scaling.run(stand_in, lambda: stand_in.run(call, lent), factor)

    def _rate_known(self, optimizer: Any) -> None:
        stand_in, rate = self._made.get(optimizer), self._here.rate
        if stand_in is not None and stand_in.rate_comes_late and rate is not None:
            on_device = isinstance(rate, torch.Tensor) and not rate.is_cpu
            stand_in.param_groups[0]["lr"] = rate.detach() if on_device else float(rate)

    def _end(self, optimizer: Any, updated: bool) -> None:
        """Handle the end of an `apply` call; not `updated`: PyTorch's guard left the step out."""
        if not getattr(optimizer, "gradient_accumulation_steps", None):
            return
        if not updated:  # the next step starts over, without the NaN in these sums
            for total in optimizer._accumulated_gradients:
                total.assign(keras.ops.zeros_like(total))
            optimizer._iterations.assign_add(1)
        stand_in = self._made.get(optimizer)
        if stand_in is not None:
            stand_in.updates.added(optimizer._iterations)

    def _begin_scaled(self, optimizer: Any, variables: Any) -> Function | None:
        """Like `_begin`, for an optimizer inside a loss scale, which may skip the step."""
        inner = optimizer.inner_optimizer
        stand_in = self._stand_in(inner, variables)
        if stand_in is None or _adds_up(inner, stand_in):
            return None
        scaling, factor = self._scaling(optimizer), self._factor(optimizer)
        return lambda call: scaling.run(stand_in, call, factor)

    # Created objects

    def _stand_in(self, optimizer: Any, variables: Sequence[Any] | None) -> StandIn | None:
        found = self._made.get(optimizer)
        if found is None:
            given = variables or getattr(optimizer, "_trainable_variables", ())
            if not given:
                return None
            averages = bool(getattr(optimizer, "gradient_accumulation_steps", None))
            kind = type(type(optimizer).__name__, (StandIn,), {"averages_losses": averages})
            found = kind(_settings(optimizer, None), self._named(given))
            found.param_groups[0].update(_settings(optimizer, _known_rate(optimizer, found)))
            self._made[optimizer] = found
        return found

    def _named(self, variables: Iterable[Any]) -> list[tuple[str, torch.Tensor]]:
        """Return weights by variable path; layers with the same path are numbered."""
        taken = {name for _, name in self._names.items()}
        found = []
        for variable in variables:
            weight = variable.value
            name = self._names.get(weight)
            if name is None:
                layer, slash, last = str(variable.path).rpartition("/")
                name, number = f"{layer}{slash}{last}", 0
                while name in taken:
                    number += 1
                    name = f"{layer}#{number}{slash}{last}"
                taken.add(name)
                self._names[weight] = name
            found.append((name, weight))
        return found

    def _scaling(self, optimizer: Any) -> Scaling:
        found = self._scalings.get(optimizer)
        if found is None:
            found = self._scalings[optimizer] = Scaling()
        return found

    def _factor(self, optimizer: Any) -> float:
        """Return the current scale of the losses and gradients of an optimizer."""
        if not _scales(optimizer):
            return 1.0
        if not hasattr(optimizer, "inner_optimizer"):
            return float(optimizer.loss_scale_factor)
        if not optimizer.built:
            return float(optimizer.initial_scale)
        return self._scaling(optimizer).reading.of(optimizer.dynamic_scale)


class KerasOnTorchHandle(Fitting):
    """Handle for Keras on PyTorch: observes epochs; the PyTorch adapter observes steps."""

    def install(self, replacements: Replacements) -> None:
        """Replace `fit`, and wrap optimizers for the PyTorch adapter."""
        super().install(replacements)
        StandIns(replacements)


class _Thread(threading.local):
    """State of a thread inside an optimizer's `apply`.

    Attributes:
        optimizer: the optimizer.
        rate: the learning rate that it requested.
        updated: whether it has stepped.
    """

    optimizer: Any = None
    rate: Any = None
    updated = False


def _settings(optimizer: Any, rate: float | None) -> dict[str, float]:
    """Return the settings of a Keras optimizer under PyTorch's names."""
    found = {} if rate is None else {"lr": rate}
    for name, theirs in (("weight_decay",) * 2, ("momentum",) * 2, ("eps", "epsilon")):
        found[name] = float(getattr(optimizer, theirs, None) or 0.0)
    return found


def _known_rate(optimizer: Any, stand_in: StandIn) -> float | None:
    """Return the learning rate; None for a schedule, which only the optimizer may call."""
    rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(rate, keras.Variable):
        return stand_in.rate.of(rate)
    return float(rate) if isinstance(rate, int | float) else None


def _adds_up(optimizer: Any, stand_in: StandIn) -> bool:
    """Return whether the next call to `apply` only accumulates its gradients."""
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    if not every:
        return False
    return (int(stand_in.updates.of(optimizer._iterations)) + 1) % int(every) != 0


def _scales(optimizer: Any) -> bool:
    """Return whether losses are scaled, by a constant factor or a dynamic loss scale."""
    return hasattr(optimizer, "inner_optimizer") or bool(
        getattr(optimizer, "loss_scale_factor", None)
    )


def _given(
    optimizer: Any, grads: Sequence[Any], variables: Sequence[Any] | None
) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """Return the weights, and the gradients of an update if they are not the weights' gradients.

    These gradients are the mean over micro-batches, without a loss scale, before clipping.
    """
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    factor = getattr(optimizer, "loss_scale_factor", None)
    sums: dict[int, torch.Tensor] = {}
    if every is not None and optimizer.built:
        pairs = zip(optimizer._trainable_variables, optimizer._accumulated_gradients, strict=True)
        sums = {id(variable): total.value.detach() for variable, total in pairs}
    own = optimizer._trainable_variables if variables is None else variables
    found: list[tuple[torch.Tensor, torch.Tensor | None]] = []
    for variable, given in zip(own, grads, strict=False):
        weight = variable.value
        if not isinstance(given, torch.Tensor) or given.shape != weight.shape:
            continue
        gradient = given.detach() / factor if factor else given
        if every is not None and id(variable) in sums:
            gradient = (gradient.detach() + sums[id(variable)]) / every
        if gradient is not weight.grad:
            found.append((weight, gradient.detach().to(weight)))
    return found
