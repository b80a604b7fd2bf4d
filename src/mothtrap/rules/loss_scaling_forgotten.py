"""NUM012: a model trains in half precision without loss scaling."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule(
    "NUM012",
    severity="error",
    needs=[Need(facts=(ModelCompiled,))],
    explains=(
        *("gradient_underflow", "vanishing_gradient", "loss_not_decreasing", "stuck_at_chance"),
        *("learning_rate_too_low", "update_ratio", "unchanged_tensor", "loss_scale_collapse"),
    ),
)
def loss_scaling_forgotten(window: Window) -> Found | None:
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
    seen = list(window.seen(ModelCompiled))
    if not seen:
        raise NotEnoughData("no model was compiled")
    half = [one for one in seen if one.loss_scaled is not None]
    if not half:
        raise NotApplicable("no model trains in float16")
    for one in half:
        if not one.loss_scaled:
            return Found.of(
                one,
                f"{one.model} ({one.model_type}) trains in {one.policy}, but its loss is not "
                "scaled",
                last_step=window.last_step,
                evidence={"policy": one.policy},
            )
    return None
