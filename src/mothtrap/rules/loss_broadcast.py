"""STR706: the prediction and the target of a loss are broadcast against each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@dataclass(frozen=True)
class LossBroadcast(Rule):
    """The prediction and the target of a loss are broadcast against each other.

    What it detects:
        An elementwise loss (squared, absolute, Huber ...) whose prediction and target have a
        different number of axes, have equal shapes without the axes of size 1, and give a result
        larger than either: `(N, 1)` and `(N,)` give `(N, N)`.

    Why it matters:
        Every prediction is compared with every target. The loss is then smallest at the mean of
        all targets, and the model learns to predict this mean for every input.

    Fires:
        Error at the first such loss call.

    Stays quiet:
        For scalar targets, targets of size 1, and intended outer differences, in which both
        sides have the same number of axes (quantile regression).

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
    needs = (Need(facts=(LossCall,)),)
    explains = (
        "cannot_overfit",
        "loss_not_decreasing",
        "stuck_at_chance",
        "overtraining",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the shapes of every observed elementwise loss."""
        calls = list(window.seen(LossCall))
        if not calls:
            raise NotEnoughData("no loss function call was observed")
        elementwise = [call for call in calls if call.operation == "elementwise"]
        if not elementwise:
            raise NotApplicable("no elementwise loss is used")
        broadcast = [call for call in elementwise if _is_broadcast(call)]
        if not broadcast:
            return []
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
