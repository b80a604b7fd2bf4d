"""One recorded training step, as checks see it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.checks import LayerRow

Array = npt.NDArray[Any]
NUMBER_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
"""Loss functions of a regression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Difference between a trial and the recorded steps; by default none.

    Attributes:
        inputs: `constant` replaces floating inputs of the model by their mean over the batch, and
            gives each row the tokens of the first row; `""` leaves them.
        targets: `permuted` gives each row the target of the next row.
        rows: only these rows of the batch, repeated up to its size.
        rate: factor of all learning rates.
        sweep: further factor, which is multiplied by itself after each step.
        regularized: False switches weight decay off and dropout to evaluation mode.
        scheduled: False keeps the learning rate of the recorded step.
        adam: replace the optimizer by Adam with a learning rate of 0.001.
        predictions: `free` trains the model's outputs instead of its weights.
        batches: batches that are used in turn; 1 repeats one batch.
        repeats: how often each row is in the batch.
        fresh: begin with the weights as they were before the watched steps, and with an optimizer
            that has no state.
    """

    inputs: Literal["", "constant"] = ""
    targets: Literal["", "permuted"] = ""
    rows: tuple[int, ...] = ()
    rate: float = 1.0
    sweep: float = 1.0
    regularized: bool = True
    scheduled: bool = True
    adam: bool = False
    predictions: Literal["", "free"] = ""
    batches: int = 1
    repeats: int = 1
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of a trial.

    Attributes:
        losses: Loss before each optimizer step; NaN if it was not finite.
        ended: Why the trial took fewer steps than requested; empty if it took all.
        right: share of the class labels that the last step predicted; NaN if the loss has none.
        memory_bytes: Peak memory of the process, or of its tensors on an accelerator, during the
            trial; NaN if unknown.
        limit_bytes: Memory available to them, including what they already use.
    """

    losses: Array
    ended: str = ""
    right: float = math.nan
    memory_bytes: float = math.nan
    limit_bytes: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSeen:
    """The first call to a loss function in a step.

    Attributes:
        operation: Name of the function, such as `cross_entropy`.
        value: its result; NaN if not known.
        prediction: first argument; classes are on axis 1 for class losses.
        target: second argument.
        options: its other arguments by name; arrays for weights.
        location: `file:line` of the call.
        alone: Whether this value is the whole loss of the step.
    """

    operation: str
    value: float
    prediction: Array
    target: Array
    options: Mapping[str, Any] = field(default_factory=dict)
    location: str | None = None
    alone: bool = False

    @property
    def has_classes(self) -> bool:
        """True if the targets are class numbers."""
        return self.operation in ("cross_entropy", "nll_loss") and self.target.dtype.kind in "iu"

    @property
    def task(self) -> Literal["classes", "numbers", ""]:
        """Task that the loss function implies; empty if it does not imply a task."""
        if self.has_classes:
            return "classes"
        return "numbers" if self.operation in NUMBER_LOSSES else ""

    @property
    def has_equal_targets(self) -> bool:
        """True if every row has the same target."""
        return bool(self.target.ndim) and bool((self.target == self.target[:1]).all())

    @property
    def classes(self) -> int:
        """Number of classes; 1 if there is no class axis."""
        return int(self.prediction.shape[1 if self.prediction.ndim > 1 else 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSeen:
    """A batch of the watched steps.

    Attributes:
        inputs: of the model, by their path in the arguments.
        target: second argument of the first loss call.
    """

    inputs: Mapping[str, Array]
    target: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSeen:
    """A parameter as observed in the watched steps.

    Attributes:
        name: path in the model.
        module: path of the module that holds it; its type is `kind`.
        gradient: `none` if it had no gradient in any step, `zero` if each gradient was exactly 0.
        called: the module was called in the watched steps.
    """

    name: str
    module: str
    kind: str
    gradient: Literal["none", "zero", "some"]
    called: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Place where the path from a module to the output ends.

    Attributes:
        reason: `unused`: the output of the module has no influence on the model's output;
            `detached`: it has, but the graph ends between the two; `no_grad`: the module itself
            ran without a graph; `unknown`.
        last: last module on the way that still has a graph.
        next: the module after it.
    """

    reason: Literal["unused", "detached", "no_grad", "unknown"]
    last: str = ""
    next: str = ""


class Forward(Protocol):
    """The call to the model in the recorded step, as a function of its inputs.

    Attributes:
        model: type of the model.
        inputs: arrays by their path in the arguments.
        rows: Batch size; 0 if no batch axis is known.
        kinds: types of all layers of the model.
        channels: axis of the channels of images, 1 or -1.
        location: `file:line` of the call.
    """

    model: str
    inputs: Mapping[str, Array]
    rows: int
    kinds: frozenset[str]
    channels: int
    location: str | None

    def outputs(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        training: bool = False,
        seed: int = 0,
    ) -> tuple[Array, ...]:
        """Return the floating-point outputs of the model.

        Each call starts from the same model state and random states.

        Args:
            inputs: Values that replace the recorded inputs, by path.
            training: Use training mode instead of evaluation mode.
            seed: 0 = the random states of the recorded step; other values use different states.
        """

    def parts(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        training: bool = False,
        seed: int = 0,
    ) -> Sequence[tuple[str, Array]]:
        """Return the output of each module call, in the order in which the calls end."""

    def stale(self) -> Mapping[str, tuple[Array, ...]] | None:
        """Return, by tensor, the outputs after resetting it to its value before the watched steps.

        Covers only tensors that have changed since then, that no checkpoint contains, and that have
        no axis as long as the batch. None if the framework has no such tensors.
        """

    def layers(self) -> Sequence[LayerRow]:
        """Return the layers without sublayers, and the layers with their own parameters."""

    def left_out(self) -> Sequence[str]:
        """Return the layers that were called to build the model, but whose output is not used."""

    def drops(self) -> bool:
        """Return whether the model drops values at random in evaluation mode."""

    def influence(self, seeds: int = 2) -> Mapping[str, Array]:
        """Return the summed absolute gradient of the outputs with respect to each input value.

        Floating inputs that the graph does not reach are missing.
        """

    def gradients(self, *, double: bool) -> Mapping[str, Array]:
        """Return the gradient of a random projection of the outputs for each parameter.

        The model is in evaluation mode.

        Args:
            double: Compute in float64, without autocast.
        """

    def exact_outputs(self) -> tuple[Array, ...]:
        """Return the outputs in evaluation mode, computed in float64 without autocast."""

    def directional(self, seed: int) -> tuple[float, float, float]:
        """Compare the derivative of the model along a random direction, in float64.

        Returns:
            The difference quotients at two step widths, and the derivative by backward.
        """

    def own_backwards(self) -> Mapping[str, bool]:
        """Return the functions whose backward the user wrote, by name.

        The value is True for a function whose output has only a few different values, such as a
        sign: its backward pass estimates a derivative on purpose.
        """

    def cut(self, module: str) -> Cut:
        """Find where the path from a module to the outputs ends."""


class Step(Protocol):
    """The recorded step.

    Attributes:
        number: Number of the step.
        forward: The model call; None unless the step calls exactly one model.
        loss: First loss call of step 0, before any update; None if no step was recorded.
        parameters: Parameters that require a gradient.
        loaded: Whether weights were loaded from a file before the step.
        watched: Number of watched steps.
        target: target of the first loss call of the recorded step, whose inputs `forward` has; None
            if it is not known.
        rates: the largest learning rate of each watched step; empty if they are not known.
        losses: loss of each watched step; empty if no step ran, or if the losses are unknown.
        peak_rate: the largest learning rate that the schedule is known to reach; 0 if unknown.
    """

    number: int
    forward: Forward | None
    loss: LossSeen | None
    target: Array | None
    rates: Sequence[float]
    losses: Sequence[float]
    peak_rate: float
    parameters: Sequence[ParameterSeen]
    loaded: bool
    watched: int

    def batches(self) -> Sequence[BatchSeen]:
        """Return the latest batches, the recorded step's last.

        A trial with as many `Change.batches` uses them in turn. Empty if they are not known.
        """

    def train(self, change: Change, steps: int, seconds: float) -> Trial:
        """Repeat the step with one change, in the script's own loop, and return the losses.

        Random states are restored before each step.
        """


def batch_axis_of(inputs: Mapping[str, Array]) -> int:
    """Return the batch size: the most common first axis of the inputs; 0 without arrays."""
    sizes = [len(array) for array in inputs.values() if array.ndim]
    return max(sizes, key=sizes.count) if sizes else 0


def relative_change(before: Array, after: Array) -> float:
    """Return the largest change between two outputs, in standard deviations of the first."""
    scale = float(np.std(before)) or 1.0
    return float(np.max(np.abs(after - before), initial=0.0)) / scale
