"""STR734: a loss reaches parameters only through an operation whose derivative is 0."""

from __future__ import annotations

from mothtrap.core.facts.modules import ZeroSlope
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

ROUNDING = ("sign", "sgn", "round", "floor", "ceil", "trunc")
"""Operations through which a gradient can be passed as if they were not there."""


@rule(
    "STR734",
    title="operation without a slope",
    needs=[Need(facts=(ZeroSlope,))],
    explains=(
        *UNLEARNED,
        *("zero_gradient", "unchanged_tensor", "update_ratio", "epsilon_too_large"),
        "disconnected_parameter",
        *("vanishing_gradient", "overfit", "learning_rate_too_low"),
    ),
)
def zero_slope(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """A loss reaches parameters only through an operation whose derivative is 0.

    What it detects:
        Trained parameters from which every way to the loss passes through `sign`, `round`, `floor`,
        `ceil`, or `trunc`. JAX: also through `argmax`, a comparison, or a conversion to integers,
        if this is true for all parameters.

    Why it matters:
        The derivative of these operations is 0. So the gradient of everything before them is
        exactly 0, and the layers keep their initial values, although they are in the optimizer.

    Fires:
        Warning when `looks` sampled backward passes at one line show such parameters.

    Stays quiet:
        If another way leads to the loss, as in a straight-through estimator. For operations inside
        a custom function with its own backward pass. For frozen parameters.

    What to do:
        - PyTorch: Pass the gradient through, as if the operation were not there:
          `y = x + (torch.sign(x) - x).detach()`.
        - Keras: Pass the gradient through, as if the operation were not there:
          `y = x + tf.stop_gradient(tf.sign(x) - x)`.
        - JAX: Pass the gradient through, as if the operation were not there:
          `y = x + jax.lax.stop_gradient(jnp.sign(x) - x)`.
        - Replace the operation by one with a slope in training, such as `tanh(x)` for `sign(x)`.
        - Compute the loss from the scores, such as a cross-entropy of the logits. Use an accuracy,
          an `argmax`, or a threshold only as a metric.

    Example:
        code = torch.sign(encoder(x))
        h = encoder(x); code = h + (torch.sign(h) - h).detach()

    References:
        Bengio, Leonard, Courville 2013, Estimating or propagating gradients through stochastic
        neurons for conditional computation, https://arxiv.org/abs/1308.3432
    """
    for one in window.seen(ZeroSlope, steps=looks):
        if one.found < looks:
            continue
        rounds = any(name in one.operation for name in ROUNDING)
        return Found.of(
            one,
            f"the loss reaches {one.parameters / one.of:.0%} of the trained parameters only "
            f"through {one.operation}, whose derivative is 0: their gradient is exactly 0 in "
            f"{one.found} of {one.looks} sampled backward passes (limit {looks})",
            step=0,
            count=one.found,
            evidence={"value": one.parameters / one.of, "looks": one.looks, "limit": looks},
            fixes=(0, 1, 2, 3) if rounds else (4,),
        )
    return None
