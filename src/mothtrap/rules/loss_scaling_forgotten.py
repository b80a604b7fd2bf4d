"""NUM012: half precision without a loss scale."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@dataclass(frozen=True)
class LossScalingForgotten(Rule):
    """A model is trained in half precision, but its loss is not scaled.

    What it detects:
        A model that computes in float16, in a training loop or `train_step` of one's own that
        takes gradients of the loss itself.

    Why it matters:
        Gradients below 6e-8 become 0 in float16. An optimizer that expects scaled gradients
        also divides them by the scale, 32768 at first, so that weights hardly change.

    Fires:
        Error when the gradients are of a loss that was not scaled.

    Stays quiet:
        bfloat16, which has the range of float32, and `fit` with the default `train_step`.

    What to do:
        - Scale the loss inside of the tape: `scaled = optimizer.scale_loss(loss)`, and take the
          gradients of `scaled`, with `keras.optimizers.LossScaleOptimizer(optimizer)`.
        - Use the policy `"mixed_bfloat16"` where the device has it.

    Example:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)

    References:
        https://keras.io/api/mixed_precision/
    """

    code = "NUM012"
    needs = (Need(facts=(ModelCompiled,)),)
    explains = (
        *("gradient_underflow", "vanishing_gradient", "loss_not_decreasing", "stuck_at_chance"),
        *("learning_rate_too_low", "update_ratio", "unchanged_tensor", "loss_scale_collapse"),
    )

    def check(self, window: Window) -> list[Finding]:
        """Look at every model that computes in half precision."""
        seen = list(window.seen(ModelCompiled))
        if not seen:
            raise NotEnoughData("no model was compiled")
        half = [one for one in seen if one.loss_scaled is not None]
        if not half:
            raise NotApplicable("no model is trained in float16")
        forgotten = [one for one in half if one.loss_scaled is False]
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=one.step,
                last_step=window.last_step,
                message=f"{one.model} ({one.model_type}) is trained in {one.policy}, but its loss "
                "is not multiplied by a loss scale",
                evidence={"policy": one.policy},
                location=one.location,
            )
            for one in forgotten[:1]
        ]
