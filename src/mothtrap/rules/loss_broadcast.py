"""STR706: the prediction and the target of a loss are broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.loss_terms import OverlapBroadcast
from mothtrap.core.facts.losses import LossCall, MetricBroadcast
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "STR706",
    title="broadcast in the loss",
    needs=[
        Need(facts=(LossCall,)),
        Need(facts=(MetricBroadcast, OverlapBroadcast), optional=True),
    ],
    explains=("cannot_overfit", "loss_not_decreasing", "stuck_at_chance", "overtraining"),
)
def loss_broadcast(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Iterator[Found]:
    """The prediction and the target of a loss are broadcast against each other.

    What it detects:
        An elementwise loss (squared, absolute, Huber ...) whose prediction and target have a
        different number of axes, have equal shapes without the axes of size 1, and give a result
        larger than either: `(N, 1)` and `(N,)` give `(N, N)`. Also a Keras metric that compares
        them in this way. Also an overlap (Dice, intersection over union) whose target has more
        values than the prediction, such as a mask with three channels.

    Why it matters:
        Every prediction is compared with every target. The loss is then smallest at the mean of all
        targets, and the model learns to predict this mean for every input. A metric that is
        computed this way says nothing about the model. An overlap counts each prediction several
        times, so it can exceed 1, and the loss becomes negative.

    Fires:
        Error at the first such loss call. Warning if a Keras loss compares one output of each
        row, `(N, 1)`, with several targets, `(N, T)`: a recurrent layer that returns only its last
        output, or a last layer with too few units. Warning if a metric that is a function of the
        script compares `(N, 1)` with `(N,)`. Error when, in at least `looks` inspected backward
        passes at one line, an overlap multiplies the prediction with a target of more values.

    Stays quiet:
        For scalar targets, targets of size 1, and intended outer differences, in which both
        sides have the same number of axes (quantile regression). For metrics that compare targets
        with targets, or predictions with predictions (rankings).

    What to do:
        - PyTorch: Give both the same shape: `prediction.squeeze(-1)` or
          `target.unsqueeze(-1)`.
        - Keras, JAX: Give both the same shape: `prediction.squeeze(-1)` or `target[:, None]`.

    Example:
        loss = F.mse_loss(model(x), y)                       # (32, 1) against (32,)
        loss = F.mse_loss(model(x).squeeze(-1), y)           # (32,) against (32,)

    References:
        https://docs.pytorch.org/docs/stable/notes/broadcasting.html
    """
    calls, metrics = list(window.seen(LossCall)), list(window.seen(MetricBroadcast))
    overlaps = [one for one in window.seen(OverlapBroadcast) if one.found >= looks]
    elementwise = [call for call in calls if call.operation == "elementwise"]
    if not calls and not metrics and not overlaps:
        raise NotEnoughData("no loss function call was observed")
    if not elementwise and not metrics and not overlaps:
        raise NotApplicable("no elementwise loss is used")
    if any(map(_is_broadcast, elementwise)):
        yield _in_loss(filter(_is_broadcast, elementwise))
    elif any(map(_is_stretched, elementwise)):
        yield _one_for_all(filter(_is_stretched, elementwise))
    if overlaps:
        yield _in_overlap(overlaps[0])
    if metrics:
        yield _in_metric(metrics[0])


def _in_metric(one: MetricBroadcast) -> Found:
    """Report a metric that compares every prediction with every target."""
    shapes = {1: "(N,)", 2: "(N, 1)"}
    prediction, target = shapes[one.prediction_axes], shapes[one.target_axes]
    return Found.of(
        one,
        f"the prediction has shape {prediction} and the target {target}: the metric "
        f"`{one.metric}` compares every prediction with every target",
        severity="warning",
        evidence={
            "metric": one.metric,
            "prediction_shape": prediction,
            "target_shape": target,
        },
        title="broadcast in a metric",
    )


def _in_overlap(one: OverlapBroadcast) -> Found:
    """Report an overlap that multiplies each prediction with several targets."""
    return Found.of(
        one,
        f"the prediction has shape {one.prediction_shape} and the target {one.target_shape}: the "
        f"overlap counts each prediction several times, in {one.found} of {one.looks} inspected "
        "backward passes",
        severity="error",
        step=0,
        count=one.found,
        evidence={
            "prediction_shape": list(one.prediction_shape),
            "target_shape": list(one.target_shape),
        },
        fixes=(
            "Give the target the shape of the prediction: for a mask that was read as an image "
            "with three equal channels, use one of them: `mask[:, :1]`.",
            "If the channels are different classes, give the last layer as many outputs.",
        ),
        title="broadcast in an overlap",
    )


def _in_loss(calls: Iterable[LossCall]) -> Found:
    """Report a loss that compares every prediction with every target."""
    broadcast = sorted(calls, key=lambda call: call.step)
    first = broadcast[0]
    prediction, target = first.prediction_shape or (), first.target_shape or ()
    result = first.result_shape or ()
    return Found.of(
        broadcast,
        f"the prediction has shape {prediction} and the target {target}: the loss has shape "
        f"{result} and compares every prediction with every target",
        severity="error",
        evidence={
            "prediction_shape": list(prediction),
            "target_shape": list(target),
            "result_shape": list(result),
        },
        mode=first.mode.value,
    )


def _one_for_all(calls: Iterable[LossCall]) -> Found:
    """Report one output of each row that is compared with all targets of the row."""
    stretched = sorted(calls, key=lambda call: call.step)
    first = stretched[0]
    prediction, target = first.prediction_shape or (), first.target_shape or ()
    return Found.of(
        stretched,
        f"the prediction has shape {prediction} and the target {target}: `{first.function}` "
        f"compares the one output of each row with {target[-1]} targets",
        severity="warning",
        evidence={"prediction_shape": list(prediction), "target_shape": list(target)},
        mode=first.mode.value,
        fixes=(
            f"If each of the {target[-1]} positions of a sequence has a target, set "
            "`return_sequences=True` in the last recurrent layer, and pass targets with a last "
            "axis of size 1.",
            f"Otherwise, give the last layer {target[-1]} units.",
        ),
    )


def _is_stretched(call: LossCall) -> bool:
    prediction, target = call.prediction_shape or (), call.target_shape or ()
    one_axis = len(prediction) == len(target) > 1 and prediction[:-1] == target[:-1]
    stretches = one_axis and prediction[-1] == 1 < target[-1] and call.result_shape == target
    return bool(call.function) and stretches


def _is_broadcast(call: LossCall) -> bool:
    prediction, target, result = call.prediction_shape, call.target_shape, call.result_shape
    if prediction is None or target is None or result is None:
        return False
    squeezed = [tuple(size for size in shape if size != 1) for shape in (prediction, target)]
    elements = math.prod(prediction)
    return (
        len(prediction) != len(target)
        and squeezed[0] == squeezed[1]
        and elements > 1
        and math.prod(result) > elements
    )
