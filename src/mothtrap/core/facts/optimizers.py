"""Facts about optimizers, the parameters that they hold, and their updates."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class OptimizerFacts(Fact, frozen=True, kw_only=True, tag=True):
    """Settings of an optimizer: at its first step, and when anything but its rate changed.

    Numbers are the largest over its groups. `decoupled`: decay acts on the weights beside
    the gradient and not through it. `second_moments`: it divides by the root of averaged
    squares, kept in elements of type `state_dtype` ('' = it keeps none). `compensated`: it
    keeps what rounding took from an update, or weights of a wider type. `fused`: it
    computes in a wider type than it stores. `maximizes`: it climbs. `takes_over`, told at its
    first step: another optimizer had stepped its first parameter. `elements` counts its
    parameters' elements, `weight_dtypes` their types. `location` is the line that made it,
    `stepped_at` the one that called this step.
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
    """Number of elements of 16-bit weights that are unchanged after a stretch of steps.

    The stretch began with the step `since` and ended with `step`. Of the elements looked
    at, `elements` got a gradient that is not 0 in it, `unchanged` of these have the value
    that they had before. `learning_rate` is the smallest of the stretch. `layers` are the
    parameters with the largest share of such elements.
    """

    since: int
    optimizer: str
    dtypes: tuple[str, ...]
    elements: int
    unchanged: int
    learning_rate: float
    layers: tuple[str, ...] = ()


class UpdateDirection(Fact, frozen=True, kw_only=True, tag=True):
    """Where the script's own update moved some weights, in one of its first steps.

    `cosines`: of the change and the gradient of each of `layers` (names of parameters), over
    some elements: -1 is descent, 1 ascent. `location` is the line of the update, where the
    source shows it, else None.
    """

    optimizer: str
    layers: tuple[str, ...]
    cosines: tuple[float, ...]
    location: str | None = None


class UnownedParameter(Fact, frozen=True, kw_only=True, tag=True):
    """A parameter of a trained root that no live optimizer holds, counted so far.

    `reached_steps`: own steps of its root in which it got a non-zero gradient, of those
    looked at; `since` is the first of them, None in older runs.
    `changed`: its value was changed by anybody since first seen.
    `created_after_optimizer`: it did not exist when the root's optimizer was made.
    `twin`: name or index of a parameter of same shape that an optimizer holds and
    that belongs to no live module ("orphan"), else None.
    `downstream_of_trained`: it lies between trained parameters and the loss.
    `model_untouched`: no optimizer holds anything of its model, which looks as the
    framework initializes it. `fresh_share`: of the elements of its model, those in no optimizer
    whose weights look as they were drawn; None in older runs. `model` is the class of its root.
    `untracked`: no layer knows it, so that it is not among the weights of a model. `made_anew`:
    steps in which the line made another one, and used that.
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
    """None of an optimizer's parameters has had a gradient for steps running.

    `own_steps` are so many of its steps, of those looked at; `since` is the first of them, None
    in older runs. `parameters` counts those that it holds, `twins`
    those of them for which a parameter of the same shape, in a model that is used and in no
    optimizer, has a gradient; `twin` names one, `location` is where its module was built.
    """

    optimizer: str
    own_steps: int
    parameters: int
    twins: int
    twin: str = ""
    location: str | None = None
    since: int | None = None


class GradientsCleared(Fact, frozen=True, kw_only=True, tag=True):
    """An optimizer stepped without gradients: they were cleared after the backward.

    Told of the first of such steps running. `location` is the line that cleared them.
    """

    optimizer: str
    location: str | None = None


class ClippedLate(Fact, frozen=True, kw_only=True, tag=True):
    """An optimizer's gradients were clipped when its step had applied them, then cleared.

    So the clipping had no effect. `late_steps` counts its steps so far before which that
    was the only clipping, `timely_steps` those whose gradients were clipped before they were
    applied. `since` is the first step whose gradients were clipped late. `location` is the
    line that clips.
    """

    optimizer: str
    since: int
    late_steps: int
    timely_steps: int = 0
    location: str | None = None


class ScheduleEnded(Fact, frozen=True, kw_only=True, tag=True):
    """Calls that a learning rate schedule got by the end of the job, and those that it plans for.

    Its `argument` says that it plans for `planned` calls. It got `calls` of them while the job made
    `steps` optimizer steps and `passes` over the training data (0 = not known). `warms_up`: the
    calls raise the learning rate to its full value. For a schedule that calls a function,
    `argument` is a number that the function reads.
    """

    schedule: str
    argument: str
    planned: int
    calls: int
    steps: int
    passes: int = 0
    warms_up: bool = False
    location: str | None = None
