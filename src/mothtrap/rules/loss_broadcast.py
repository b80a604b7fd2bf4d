"""STR706: the prediction and the target of a loss are broadcast against each other."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, MetricBroadcast
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@frozen
class LossBroadcast(Rule):
    """The prediction and the target of a loss are broadcast against each other.

    What it detects:
        An elementwise loss (squared, absolute, Huber ...) whose prediction and target have a
        different number of axes, have equal shapes without the axes of size 1, and give a result
        larger than either: `(N, 1)` and `(N,)` give `(N, N)`. Also a Keras metric that compares
        them in this way.

    Why it matters:
        Every prediction is compared with every target. The loss is then smallest at the mean of all
        targets, and the model learns to predict this mean for every input. A metric that is
        computed this way says nothing about the model.

    Fires:
        Error at the first such loss call. Warning if a Keras loss compares one output of each
        row, `(N, 1)`, with several targets, `(N, T)`: a recurrent layer that returns only its last
        output, or a last layer with too few units. Warning if a metric that is a function of the
        script compares `(N, 1)` with `(N,)`.

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

    code = "STR706"
    title = "broadcast in the loss"
    needs = (
        Need(facts=(LossCall,)),
        Need(facts=(MetricBroadcast,), optional=True),
    )
    explains = (
        "cannot_overfit",
        "loss_not_decreasing",
        "stuck_at_chance",
        "overtraining",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the shapes of every observed elementwise loss."""
        calls, metrics = list(window.seen(LossCall)), list(window.seen(MetricBroadcast))
        if metrics:
            return [*self._in_loss(window, calls), self._in_metric(window, metrics[0])]
        if not calls:
            raise NotEnoughData("no loss function call was observed")
        elementwise = [call for call in calls if call.operation == "elementwise"]
        if not elementwise:
            raise NotApplicable("no elementwise loss is used")
        return self._in_loss(window, elementwise)

    def _in_metric(self, window: Window, one: MetricBroadcast) -> Finding:
        """Report a metric that compares every prediction with every target."""
        shapes = {1: "(N,)", 2: "(N, 1)"}
        prediction, target = shapes[one.prediction_axes], shapes[one.target_axes]
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            message=(
                f"the prediction has shape {prediction} and the target {target}: the metric "
                f"`{one.metric}` compares every prediction with every target"
            ),
            evidence={
                "metric": one.metric,
                "prediction_shape": prediction,
                "target_shape": target,
            },
            location=one.location,
            title="broadcast in a metric",
        )

    def _in_loss(self, window: Window, calls: list[LossCall]) -> list[Finding]:
        elementwise = [call for call in calls if call.operation == "elementwise"]
        broadcast = [call for call in elementwise if _is_broadcast(call)]
        if not broadcast:
            stretched = [call for call in elementwise if _is_stretched(call)]
            return [self._one_for_all(window, stretched)] if stretched else []
        first = min(broadcast, key=lambda call: call.step)
        prediction, target = first.prediction_shape or (), first.target_shape or ()
        result = first.result_shape or ()
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=first.step,
                last_step=max(call.step for call in broadcast),
                count=len({call.step for call in broadcast}),
                message=(
                    f"the prediction has shape {prediction} and the target {target}: the loss has "
                    f"shape {result} and compares every prediction with every target"
                ),
                evidence={
                    "prediction_shape": list(prediction),
                    "target_shape": list(target),
                    "result_shape": list(result),
                },
                location=first.location,
                mode=first.mode.value,
            )
        ]

    def _one_for_all(self, window: Window, calls: list[LossCall]) -> Finding:
        """Report one output of each row that is compared with all targets of the row."""
        first = min(calls, key=lambda call: call.step)
        prediction, target = first.prediction_shape or (), first.target_shape or ()
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=first.step,
            last_step=max(call.step for call in calls),
            count=len({call.step for call in calls}),
            message=(
                f"the prediction has shape {prediction} and the target {target}: "
                f"`{first.function}` compares the one output of each row with {target[-1]} targets"
            ),
            evidence={"prediction_shape": list(prediction), "target_shape": list(target)},
            location=first.location,
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
