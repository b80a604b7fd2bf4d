"""Facts about optimizers, the parameters that they hold, and their updates."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class OptimizerFacts(Fact, frozen=True, kw_only=True, tag=True):
    """Settings of an optimizer at its first step, and when any of them except the rate changes.

    Numbers are the largest over its groups. `decoupled`: weight decay acts on the weights directly,
    not through the gradient. `second_moments`: it divides by the root of averaged squares, whose
    elements have type `state_dtype` ('' = none). `compensated`: it keeps the rounding errors of
    updates, or a copy of the weights in a wider type. `fused`: it computes in a wider type than it
    stores. `maximizes`: it maximizes the loss. `takes_over`, reported at its first step: another
    optimizer updated its first parameter earlier. `elements` is the number of elements of its
    parameters, and `weight_dtypes` their types. `location` is the line that created it,
    `stepped_at` the line that called this step.
    """

    optimizer: str
    kind: str
    learning_rate: float | None = None
    weight_decay: float = 0.0
    decoupled: bool = False
    momentum: float = 0.0
    epsilon: float | None = None
    second_moments: bool = False
    state_dtype: str = ""
    compensated: bool = False
    fused: bool = False
    maximizes: bool = False
    takes_over: bool = False
    elements: int = 0
    weight_dtypes: tuple[str, ...] = ()
    stepped_at: str | None = None
    location: str | None = None


class RoundedUpdates(Fact, frozen=True, kw_only=True, tag=True):
    """Number of elements of 16-bit weights that did not change over a range of steps.

    The range is from step `since` to `step`. Of the inspected elements, `elements` got a nonzero
    gradient in it, and `unchanged` of these have the same value as before. `learning_rate` is the
    smallest in the range. `layers` are the parameters with the largest share of such elements.
    """

    since: int
    optimizer: str
    dtypes: tuple[str, ...]
    elements: int
    unchanged: int
    learning_rate: float
    layers: tuple[str, ...] = ()


class UpdateDirection(Fact, frozen=True, kw_only=True, tag=True):
    """Direction in which the script's own update moved some weights, in one of its first steps.

    `cosines` contains, for each of `layers` (names of parameters), the cosine between the change
    and the gradient, over some elements: -1 is descent, 1 ascent. `location` is the line of the
    update if the source shows it, otherwise None.
    """

    optimizer: str
    layers: tuple[str, ...]
    cosines: tuple[float, ...]
    location: str | None = None


class OpposedOptimizers(Fact, frozen=True, kw_only=True, tag=True):
    """Two optimizers update the same parameters in turn, and their gradients were compared.

    `narrow` holds `shared` parameters. `wide` holds `parameters`: all shared parameters, and
    others. Over `looks` pairs of steps, `cosine` is the largest cosine between their gradients, and
    `mean` the mean. `location` is the line that created one of them.
    """

    wide: str
    narrow: str
    shared: int
    parameters: int
    looks: int
    cosine: float
    mean: float
    location: str | None = None


class UnownedParameter(Fact, frozen=True, kw_only=True, tag=True):
    """A parameter of a trained root module that no live optimizer holds.

    `reached_steps`: inspected steps of its root module in which it got a nonzero gradient; `since`
    is the first of them, None in older runs.
    `changed`: its value has changed since it was first seen.
    `created_after_optimizer`: it did not exist when the root module's optimizer was created.
    `twin`: name or index of a parameter of the same shape that is in an optimizer, but in no live
    module ("orphan"); otherwise None.
    `downstream_of_trained`: it lies between trained parameters and the loss.
    `model_untouched`: no optimizer has any parameter of its model, which still has the framework's
    initial values. `fresh_share`: share of the model's elements that are in no optimizer and still
    look like initial values; None in older runs. `model` is the class of its root module.
    `untracked`: it is in no layer, so it does not belong to the weights of a model. `made_anew`:
    number of steps in which its line created and used a new parameter.
    """

    name: str
    module: str
    shape: tuple[int, ...]
    reached_steps: int
    changed: bool
    created_after_optimizer: bool = False
    twin: str | None = None
    downstream_of_trained: bool = False
    model_untouched: bool = False
    model: str = ""
    fresh_share: float | None = None
    untracked: bool = False
    made_anew: int = 0
    location: str | None = None
    since: int | None = None


class IdleOptimizer(Fact, frozen=True, kw_only=True, tag=True):
    """No parameter of an optimizer has had a gradient for several consecutive steps.

    `own_steps` is the number of such steps among the inspected steps; `since` is the first of them,
    None in older runs. `parameters` is the number of its parameters. For `twins` of these, a
    parameter of the same shape, in a model that is used and in no optimizer, has a gradient; `twin`
    names one, and `location` is the line that created its module.
    """

    optimizer: str
    own_steps: int
    parameters: int
    twins: int
    twin: str = ""
    location: str | None = None
    since: int | None = None


class GradientsCleared(Fact, frozen=True, kw_only=True, tag=True):
    """An optimizer stepped without gradients because they were cleared after backward.

    Reported for the first of such consecutive steps. `location` is the line that cleared them.
    """

    optimizer: str
    location: str | None = None


class MicroBatchesCleared(Fact, frozen=True, kw_only=True, tag=True):
    """An optimizer's gradients were cleared between the micro-batches of each step so far.

    Each of `steps` steps had several backward passes of one line, and applied only the gradients of
    the last backward pass; `micro_batches` is their number in the latest step. `location` is the
    line that cleared them.
    """

    optimizer: str
    steps: int
    micro_batches: int
    location: str | None = None


class ClippedLate(Fact, frozen=True, kw_only=True, tag=True):
    """An optimizer's gradients were clipped only after its step had applied them.

    So the clipping had no effect. `late_steps` is the number of its steps so far for which that was
    the only clipping, `timely_steps` the number of steps whose gradients were clipped before they
    were applied. `since` is the first step whose gradients were clipped late. `location` is the
    line that clips.
    """

    optimizer: str
    since: int
    late_steps: int
    timely_steps: int = 0
    location: str | None = None


class ScheduleEnded(Fact, frozen=True, kw_only=True, tag=True):
    """Calls that a learning rate schedule received by the end of the job, and its planned calls.

    According to its `argument`, it plans `planned` calls. It got `calls` calls while the job made
    `steps` optimizer steps and `passes` over the training data (0 = unknown). `warms_up`: the calls
    raise the learning rate to its full value. For a schedule that calls a function, `argument` is a
    number that the function reads, or empty if the function computes the number. The steps used
    `batches` batches in each of `processes` processes (0 batches = unknown).
    """

    schedule: str
    argument: str
    planned: int
    calls: int
    steps: int
    passes: int = 0
    warms_up: bool = False
    batches: int = 0
    processes: int = 1
    location: str | None = None
