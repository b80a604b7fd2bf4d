"""Facts about losses: their series, computation, and inputs."""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact


class LossSeries(Fact, frozen=True, kw_only=True, tag=True):
    """A loss series began: one backward call site with the optimizers stepped next.

    `series` is the label in the `of` field of the series' `loss` scalars. `location` is the line of
    the loss call if known, otherwise of the backward call.
    """

    series: str
    location: str | None = None
    optimizers: tuple[str, ...] = ()


class LossCall(Fact, frozen=True, kw_only=True, tag=True):
    """Computation of one loss value, read from the graph or from a loss call.

    `operation`: `cross_entropy`, `nll`, `binary_cross_entropy`,
    `binary_cross_entropy_with_logits`, `elementwise` (squared, absolute, huber ...),
    `policy_gain` (an advantage times a ratio of probabilities), `ctc_loss`.
    `chain` lists the operations between the loss and the model, nearest first, without views and
    casts at the end, e.g. `("softmax", "linear")`; `()` if unknown. The shapes belong to the
    prediction, the target and the unreduced result; None = unknown. `classes` is the size of the
    class axis of a class loss. `reduction` is `mean`, `sum` or `none`. `above` lists the first
    operations on the way from the root of the backward pass to the loss, beginning at the root,
    without the operations of a gradient scaler; None = unknown. `softmax_sizes`: sizes of the axes
    of the (log-)softmaxes in the loss or directly before it, nearest first. `alone`: no other
    trained part contributes to the loss; None if unknown. Fields below `location` need values and
    are sampled; None = not inspected. `rows_are_probabilities`: rows of the prediction sum to 1,
    lie in [0, 1] and differ. `label_counts`: hard targets per class in this call, ascending class.
    `prediction_spread`: standard deviation over rows of the class probabilities (for binary losses
    of the probability), averaged over classes: 0 = the same for all rows. `model_inputs`: types of
    the tensors that the model was called with. `function` is the framework's own name of the loss.
    `predicts_probabilities`: it expects probabilities instead of logits. `predicted_least` and
    `predicted_greatest` are the extremes of the finite predictions. `made_at`: the only line that
    calls the softmax or sigmoid before the loss or, if `looks_ahead` is set, the attention.
    `looks_ahead`: the layer through which a position of a sequence depends on later positions,
    `attention` or `recurrent`; `causal` if there is none; `""` if unknown. `negated`: this
    operation is subtracted from the loss; None if its sign is unknown. `complete`: the loss
    consists of loss operations only; None if unknown. `optimistic`: the loss is the more favorable
    of two values, including this one; None for a single value. `swapped`: the argument passed as
    the target is computed from weights, and the prediction is not. `taken_back`: the `softmax` or
    `sigmoid` before a loss of logits for which the framework passes its input to the loss instead
    of its output. `chosen_at`: the line that selects the loss, if it is not `location`, the line
    that computes it.
    """

    operation: str
    series: str | None = None
    chain: tuple[str, ...] = ()
    prediction_shape: tuple[int, ...] | None = None
    target_shape: tuple[int, ...] | None = None
    result_shape: tuple[int, ...] | None = None
    classes: int | None = None
    location: str | None = None
    rows_are_probabilities: bool | None = None
    label_counts: tuple[int, ...] | None = None
    prediction_spread: float | None = None
    reduction: str | None = None
    above: tuple[str, ...] | None = None
    softmax_sizes: tuple[int, ...] = ()
    model_inputs: tuple[str, ...] = ()
    targets: TargetSample | None = None
    looks_ahead: str | None = None
    made_at: str | None = None
    alone: bool | None = None
    function: str | None = None
    predicts_probabilities: bool | None = None
    predicted_least: float | None = None
    predicted_greatest: float | None = None
    taken_back: str = ""
    chosen_at: str | None = None
    swapped: bool = False
    negated: bool | None = None
    complete: bool | None = None
    optimistic: bool | None = None


class TargetSample(msgspec.Struct, frozen=True, kw_only=True):
    """Sampled targets of one loss call; None = not inspected, or not available.

    `count` targets were inspected, of type `dtype`; `least`, `greatest`, `mean` and `std` refer
    to the finite targets that are not ignored. `ignored_share` is the share of labels that the
    loss is set to ignore, and `ignored_class` is this label if it is a class of the model.
    `outside_share` is the share of targets that the last operation before the loss cannot
    produce, such as negative targets after a ReLU. `weighted`: the loss weights classes
    differently, each by its number in `class_weights`, or by 1. `class_weights` is empty if weights
    are unknown or too many. `input_offsets`: every k for which the targets equal the integer inputs
    of the model k positions later, as far as known; None if targets and inputs are not aligned. 2
    and -1 are only tried if 0 and 1 do not fit. `sequences`: number and length of the sequences of
    tokens whose next tokens are the targets. `decoded`: of several token inputs, the last embedded
    input equals the targets at the same positions, so a decoder receives its own targets.
    `telling_columns`: columns of the model's input, each of which alone reveals the target, or that
    together contain some numbers of a target of several numbers. `columns`: number of columns of
    the input. `by_position`: an example has several labels: the output of the model has more axes
    than the prediction passed to the loss. `confusion`: labels (rows) against predicted classes,
    row by row, for at most 20 classes; empty for tokens. `normalized`: exponentials of the
    prediction's rows sum to 1, as for log-probabilities. `row_sums`: smallest and largest sum of a
    row of labels that has 0 or 1 for each class. `endings`: for sequences that predict their next
    token and are shorter than others of the batch: their number, the most frequent last label and
    its rows, the most frequent token after it, which is not a label, and its rows. `stops`: for
    sequences that predict their next token: the number of rows with labels, the number of these
    whose labels begin with the first token and stop before the last ones, and the mean share of the
    tokens after the last label. `padding`: the label that pads sequences at their ends and counts
    in the loss, and its share of the labels. `surest`: number of rows in the quarter of the rows
    with the most probable predicted classes, and how many of them have another label. `shown`: if
    some labels equal the token at their position and others do not: the number of labels, how many
    equal it, and at how many of the others the input has the token that is most frequent there.
    """

    dtype: str
    count: int
    least: float | None = None
    greatest: float | None = None
    mean: float | None = None
    std: float | None = None
    ignored_share: float | None = None
    ignored_class: int | None = None
    outside_share: float | None = None
    weighted: bool = False
    class_weights: tuple[float, ...] = ()
    input_offsets: tuple[int, ...] | None = None
    sequences: tuple[int, int] | None = None
    decoded: bool = False
    telling_columns: tuple[int, ...] | None = None
    columns: int | None = None
    by_position: bool = False
    confusion: tuple[int, ...] | None = None
    normalized: bool | None = None
    row_sums: tuple[float, float] | None = None
    endings: tuple[int, int, int, int, int] | None = None
    stops: tuple[int, int, float] | None = None
    padding: tuple[int, float] | None = None
    surest: tuple[int, int] | None = None
    shown: tuple[int, int, int] | None = None


class FailedLoss(Fact, frozen=True, kw_only=True, tag=True):
    """Arguments of a loss call whose exception ended the script.

    `operation` as in `LossCall`; `least` and `greatest` are the extremes of the targets,
    `predicted_least` and `predicted_greatest` the extremes of the predictions; None if they can no
    longer be read.
    """

    operation: str
    error: str
    classes: int | None = None
    target_dtype: str | None = None
    least: float | None = None
    greatest: float | None = None
    predicted_least: float | None = None
    predicted_greatest: float | None = None
    location: str | None = None


class TokenShares(Fact, frozen=True, kw_only=True, tag=True):
    """Shares of the most frequent integers in an integer input of a model.

    `shares` contains the share of each value, most frequent first; `count` elements were inspected.
    `packed`: the model packs sequences, so its recurrent layers skip padding.
    """

    argument: str
    count: int
    shares: dict[int, float]
    packed: bool = False


class MixedAxes(Fact, frozen=True, kw_only=True, tag=True):
    """A view under a loss changed the order of axes without moving the values.

    In `mixed` of `looks` inspected backward passes of a line, a tensor of shape `given` was viewed
    with the shape `became`. If `targets` is true, the prediction of shape `given` and targets of
    shape `became` were both flattened. `location` is the line of the view if there is only one,
    otherwise the line of the loss.
    """

    looks: int
    mixed: int
    given: tuple[int, ...]
    became: tuple[int, ...]
    targets: bool = False
    location: str | None = None


class MetricBroadcast(Fact, frozen=True, kw_only=True, tag=True):
    """A metric compares every prediction with every target: `(N, 1)` meets `(N,)`.

    `prediction_axes` and `target_axes` are their numbers of axes, 1 and 2. `location` is the line
    that returns the metric.
    """

    metric: str
    prediction_axes: int
    target_axes: int
    location: str | None = None
