"""LOS416: the target of a loss carries a gradient."""

from __future__ import annotations

from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS416",
    title="target carries a gradient",
    needs=[Need(facts=(TrainedTarget,)), Need(facts=(LossSeries,), optional=True)],
    explains=("loss_not_decreasing", "loss_diverging", "loss_oscillating", "constant_output"),
)
def trained_target(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """The target of a loss carries a gradient.

    What it detects:
        A loss between a prediction and a target that carries a gradient: the target
        `reward + gamma * value` of Q-learning, or the output of a teacher or a target network. Also
        a policy loss whose advantage, such as `returns - values`, carries a gradient.

    Why it matters:
        The optimizer also moves the target toward the prediction, so the model learns other values
        than the method defines. If no optimizer holds the target's parameters, the backward pass
        through the target only costs time and memory. Through an advantage, the policy loss pushes
        the value up or down instead of toward the return.

    Fires:
        Warning when, in at least `looks` observed backward passes at one line, the target is a
        number plus a weighted prediction, or a log probability is multiplied by an advantage, and
        the gradient of the target or advantage changes parameters of the optimizer. Info when the
        target reaches only parameters that neither the prediction nor the optimizer uses.

    Stays quiet:
        For losses between two outputs that are both trained on purpose, such as the two views of
        contrastive or mutual learning and features of the same network.

    What to do:
        - PyTorch: Compute the target without a gradient: `with torch.no_grad():` around it, or
          `target.detach()`.
        - JAX: Compute the target without a gradient: `jax.lax.stop_gradient(target)`.
        - Keras: Compute the target before the tape begins, or call `tf.stop_gradient(target)`.
        - PyTorch: Weight the log probability by numbers:
          `-log_prob * (returns - values.detach())`.

    Example:
        target = reward + gamma * q(next_state).max(1).values      # needs no_grad
        loss = F.mse_loss(q(state).gather(1, action), target)

    References:
        Sutton, Barto 2018, Reinforcement Learning, section 9.3 on semi-gradient methods,
        http://incompleteideas.net/book/the-book-2nd.html
    """
    seen = list(window.seen(TrainedTarget, steps=looks))
    trained = [one for one in seen if one.trained >= looks]
    idle = [one for one in seen if one.idle >= looks]
    weighted = [one for one in seen if one.advantages >= looks]
    if weighted:
        first, count = weighted[0], weighted[0].advantages
        why = "so the policy loss also changes the values"
    elif trained:
        first, count = trained[0], trained[0].trained
        why = "so the optimizer also moves the target toward the prediction"
    elif idle:
        first, count = idle[0], idle[0].idle
        why = "which changes no parameter and only costs time and memory"
    else:
        return None
    what = "advantage in the policy loss" if weighted else "target of the loss"
    return Found.of(
        first,
        f"the {what} has a gradient in {count} of {first.looks} backward passes (limit {looks}), "
        f"{why}",
        severity="warning" if trained or weighted else "info",
        step=0,
        count=count,
        evidence={"passes": count, "looks": first.looks, "limit": looks},
        fixes=(3, 0, 1, 2) if weighted else (0, 1, 2),
    )
