"""NUM012: a model trains in half precision without loss scaling."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@frozen
class LossScalingForgotten(Rule):
    """A model trains in half precision without loss scaling.

    What it detects:
        A model that computes in float16, in a custom training loop or `train_step` that takes
        gradients of the unscaled loss.

    Why it matters:
        Gradients below 6e-8 become 0 in float16. An optimizer that expects scaled gradients
        also divides them by the scale, which starts at 32768, so the weights hardly change.

    Fires:
        Error when gradients are taken of an unscaled loss.

    Stays quiet:
        For bfloat16, which has the range of float32, and for `fit` with the default
        `train_step`.

    What to do:
        - Wrap the optimizer in `keras.optimizers.LossScaleOptimizer(optimizer)`. Scale the loss
          inside the tape, `scaled = optimizer.scale_loss(loss)`, and differentiate `scaled`.
        - Use the policy `"mixed_bfloat16"` if the device supports it.

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
        """Check every model that computes in half precision."""
        seen = list(window.seen(ModelCompiled))
        if not seen:
            raise NotEnoughData("no model was compiled")
        half = [one for one in seen if one.loss_scaled is not None]
        if not half:
            raise NotApplicable("no model trains in float16")
        forgotten = [one for one in half if one.loss_scaled is False]
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=one.step,
                last_step=window.last_step,
                message=f"{one.model} ({one.model_type}) trains in {one.policy}, but its loss is "
                "not scaled",
                evidence={"policy": one.policy},
                location=one.location,
            )
            for one in forgotten[:1]
        ]
