"""LOS419: a policy always chooses the same action soon after training began."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import PolicyEntropy
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class PolicyEntropyGone(Rule):
    """Soon after training starts, a policy always chooses the same action.

    What it detects:
        A policy whose actions are drawn from distributions that have lost their entropy.

    Why it matters:
        A policy learns from the actions that it tries. Without entropy it tries one action in each
        state, and its gradient is nearly 0. If that action is not the best one, the policy stays
        there.

    Fires:
        Info when the entropy was at least `began` of its largest possible value in the first steps,
        and is at most `gone` of it in two consecutive reports. The entropy is reported after 5, 10,
        20, 40, ... steps with draws. Reports before `looks` steps do not count.

    Stays quiet:
        For policies that begin without entropy, and for actions that are not drawn by
        `torch.distributions.Categorical`.

    What to do:
        - If the rewards are not good, check the sign of the entropy term. It is subtracted from
          the loss: `loss = policy_loss - 0.01 * entropy`.
        - Lower the learning rate of the policy, or normalize the advantages.

    Example:
        loss = policy_loss + 0.01 * entropy          # minimizes the entropy
        loss = policy_loss - 0.01 * entropy

    References:
        Mnih et al. 2016, Asynchronous methods for deep reinforcement learning,
        https://arxiv.org/abs/1602.01783
    """

    code = "LOS419"
    title = "policy entropy near 0"
    needs = (Need(facts=(PolicyEntropy,)),)
    explains = ("loss_not_decreasing", "zero_gradient", "vanishing_gradient")

    looks: int = threshold(20, unit="steps with draws", source="chosen by hand")
    began: float = threshold(0.3, unit="of the largest entropy", source="chosen by hand")
    gone: float = threshold(
        0.03, unit="of the largest entropy", source="chosen by hand: 1 in 150 draws differs"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the latest two reports with the first steps."""
        seen = list(window.seen(PolicyEntropy))
        if not seen and window.total_steps:
            raise NotApplicable("no policy draws its actions from a categorical distribution")
        late = [one for one in seen if one.looks >= self.looks]
        if len(late) < 2:
            raise NotEnoughData(
                f"needs {2 * self.looks} steps that follow actions drawn from a policy"
            )
        before, last = late[-2:]
        if last.first < self.began or max(before.share, last.share) > self.gone:
            return []
        since = next(one for one in seen if one.share <= self.gone)
        return [
            self.finding(
                window,
                severity=Severity.INFO,
                step=since.step,
                last_step=last.step,
                count=last.looks,
                message=(
                    f"the entropy of the policy, relative to {last.choices} equally likely "
                    f"actions, fell from {last.first:.0%} to {last.share:.2%} by step {since.step} "
                    f"(limit {self.gone:.0%}): the policy always chooses the same action in a state"
                ),
                evidence={"first": last.first, "share": last.share, "limit": self.gone},
                location=last.location,
            )
        ]
