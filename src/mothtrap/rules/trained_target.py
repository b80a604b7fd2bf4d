"""LOS416: the target of a loss carries a gradient."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import LossSeries, TrainedTarget
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class TargetWithGradient(Rule):
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
        - PyTorch: Weight the log probability by numbers:
          `-log_prob * (returns - values.detach())`.

    Example:
        target = reward + gamma * q(next_state).max(1).values      # needs no_grad
        loss = F.mse_loss(q(state).gather(1, action), target)

    References:
        Sutton, Barto 2018, Reinforcement Learning, section 9.3 on semi-gradient methods,
        http://incompleteideas.net/book/the-book-2nd.html
    """

    code = "LOS416"
    title = "target carries a gradient"
    needs = (Need(facts=(TrainedTarget,)), Need(facts=(LossSeries,), optional=True))
    explains = ("loss_not_decreasing", "loss_diverging", "loss_oscillating", "constant_output")

    looks: int = threshold(4, unit="backward passes", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every line whose target has a gradient."""
        if window.total_steps < self.looks:
            raise NotEnoughData(f"needs {self.looks} steps, saw {window.total_steps}")
        seen = list(window.seen(TrainedTarget))
        trained = [one for one in seen if one.trained >= self.looks]
        idle = [one for one in seen if one.idle >= self.looks]
        weighted = [one for one in seen if one.advantages >= self.looks]
        what, fixes = "target of the loss", self.fixes(window)[:1]
        if weighted:
            first, count = weighted[0], weighted[0].advantages
            what, fixes = "advantage in the policy loss", self.fixes(window)[::-1]
            why = "so the policy loss also changes the values"
        elif not trained and not idle:
            return []
        elif trained:
            first, count = trained[0], trained[0].trained
            why = "so the optimizer also moves the target toward the prediction"
        else:
            first, count = idle[0], idle[0].idle
            why = "which changes no parameter and only costs time and memory"
        return [
            self.finding(
                window,
                severity=Severity.WARNING if trained or weighted else Severity.INFO,
                step=0,
                last_step=first.step,
                count=count,
                message=(
                    f"the {what} has a gradient in {count} of {first.looks} backward "
                    f"passes (limit {self.looks}), {why}"
                ),
                evidence={"passes": count, "looks": first.looks, "limit": self.looks},
                location=first.location,
                fixes=fixes,
            )
        ]
