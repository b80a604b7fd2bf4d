"""LOS419: a policy always chooses the same action soon after training began."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.policies import PolicyEntropy
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS419",
    title="policy entropy near 0",
    severity="info",
    needs=[Need(facts=(PolicyEntropy,))],
    explains=("loss_not_decreasing", "zero_gradient", "vanishing_gradient"),
)
def policy_entropy_gone(
    window: Window,
    *,
    looks: int = threshold(20, unit="steps with draws", source="chosen by hand"),
    began: float = threshold(0.3, unit="of the largest entropy", source="chosen by hand"),
    gone: float = threshold(
        0.03, unit="of the largest entropy", source="chosen by hand: 1 in 150 draws differs"
    ),
) -> Found | None:
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
    seen = list(window.seen(PolicyEntropy))
    if not seen and window.total_steps:
        raise NotApplicable("no policy draws its actions from a categorical distribution")
    late = [one for one in seen if one.looks >= looks]
    if len(late) < 2:
        raise NotEnoughData(f"needs {2 * looks} steps that follow actions drawn from a policy")
    before, last = late[-2:]
    if last.first < began or max(before.share, last.share) > gone:
        return None
    since = next(one for one in seen if one.share <= gone)
    return Found.of(
        last,
        f"the entropy of the policy, relative to {last.choices} equally likely actions, fell from "
        f"{last.first:.0%} to {last.share:.2%} by step {since.step} (limit {gone:.0%}): the policy "
        "always chooses the same action in a state",
        step=since.step,
        count=last.looks,
        evidence={"first": last.first, "share": last.share, "limit": gone},
    )
