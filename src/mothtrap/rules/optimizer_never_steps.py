"""GRD112: gradients are computed, but their optimizer never steps."""

from __future__ import annotations

from mothtrap.core.facts.trainers import OptimizerNeverStepped
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule(
    "GRD112",
    needs=[Need(facts=(OptimizerNeverStepped,))],
    explains=(
        *("loss_not_decreasing", "loss_diverging", "overfit", "overtraining", "unchanged_tensor"),
        *("stale_gradient", "too_good_to_be_true", "stuck_at_chance"),
    ),
)
def optimizer_never_steps(window: Window) -> Found | None:
    """Gradients are computed, but their optimizer never steps.

    What it detects:
        An optimizer in Lightning's manual optimization whose parameters get gradients, but whose
        `step()` is never called.

    Why it matters:
        In manual optimization, the script must call `step()`. This part of the model keeps its
        initial weights, and the other parts train against it.

    Fires:
        Warning after 64 calls of `training_step` in which no parameter of the optimizer changed.

    Stays quiet:
        With automatic optimization. For optimizers whose parameters have no gradients (see OPT608).

    What to do:
        - Call `step()` of this optimizer after `self.manual_backward(loss)`.

    Example:
        self.manual_backward(g_loss)
        self.manual_backward(g_loss); optimizer_g.step()

    References:
        https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html
    """
    for one in window.seen(OptimizerNeverStepped, steps=1):
        return Found.of(
            one,
            f"{one.optimizer} of {one.model} never stepped in {one.calls} calls of "
            f"`training_step`, although {one.parameters} of its parameters have gradients, such as "
            f"{one.parameter}",
            evidence={"calls": one.calls, "parameters": one.parameters},
        )
    return None
