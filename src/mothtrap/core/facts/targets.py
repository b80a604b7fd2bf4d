"""Facts about the targets of losses."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class TrainedTarget(Fact, frozen=True, kw_only=True, tag=True):
    """The target of a loss has a gradient.

    In `trained` of `looks` inspected backward passes of a line, the target was a number plus a
    weighted prediction (`reward + gamma * value`), and its gradient changed parameters that were
    updated. In `idle` of them it reached parameters, but no parameter that the prediction reaches
    or that was updated. In `advantages` of them the loss was a log probability times an advantage
    whose gradient changed parameters that were updated. `location` is the line of the loss.
    """

    looks: int
    trained: int = 0
    idle: int = 0
    advantages: int = 0
    location: str | None = None


class CtcLabels(Fact, frozen=True, kw_only=True, tag=True):
    """Labels and lengths of `ctc_loss` in `looks` inspected backward passes of a line.

    `blanks` of `labels` labels are the blank, class `blank`; `padding` of these are at the ends of
    rows. `short` of `rows` rows have fewer frames than their labels need; the first of them has
    `frames` and needs `needed`. `zeroed`: the infinite losses of these rows are set to 0.
    `location` is the line of the loss.
    """

    looks: int
    labels: int
    blanks: int
    padding: int
    blank: int
    rows: int
    short: int
    zeroed: bool = False
    frames: int | None = None
    needed: int | None = None
    location: str | None = None


class NoisePrediction(Fact, frozen=True, kw_only=True, tag=True):
    """A loss compares predictions with standard normal noise, as in a diffusion model.

    `values` is the number of compared targets in `looks` inspected backward passes of a line.
    `correlation` is the correlation of the noise with the input of the network; None if unknown.
    `constant_condition`: every other input of the network, such as the timestep, was the same for
    all rows of all these passes. `location` is the line of the loss.
    """

    looks: int
    values: int
    correlation: float | None = None
    constant_condition: bool = False
    location: str | None = None


class MirroredTargets(Fact, frozen=True, kw_only=True, tag=True):
    """Masks or images that fit the predictions of a loss as well or better when they are mirrored.

    In the latest `looks` inspected backward passes of a line, `rows` targets were unlike their
    mirror images, and fitted their predictions either as they are or mirrored along `direction`.
    `mirrored` of them fitted at least as well when mirrored. `location` is the line of the loss.
    """

    looks: int
    rows: int
    mirrored: int
    direction: str
    location: str | None = None


class ShiftedTargets(Fact, frozen=True, kw_only=True, tag=True):
    """Masks or images that fit the predictions of a loss better when they are shifted.

    In the latest `looks` inspected backward passes of a line, `rows` targets fitted their
    predictions at some place. `shifted` of them fitted clearly better elsewhere than where they
    are, by `distance` on average, as a share of the height or width. `drift` is the length of the
    mean shift, which is smaller than `distance` if the directions differ. `location` is the line of
    the loss.
    """

    looks: int
    rows: int
    shifted: int
    distance: float
    drift: float
    location: str | None = None


class SoftTargets(Fact, frozen=True, kw_only=True, tag=True):
    """The soft targets of a loss, as of a teacher, and the labels of the same rows.

    `rows` rows were compared in `looks` inspected backward passes of a line. In `agree` of them,
    the most probable class of the soft target is the label; `surest` is the mean of the probability
    of this class. `given` counts these classes, and
    `labels` the labels, in ascending order of the classes. `location` is the line of the loss.
    """

    looks: int
    rows: int
    agree: int
    surest: float
    given: tuple[int, ...]
    labels: tuple[int, ...]
    location: str | None = None
