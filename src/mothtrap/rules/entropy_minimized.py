"""LOS433: the loss of a policy minimizes its entropy."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS433",
    title="policy entropy is minimized",
    needs=[Need(facts=(PolicyLoss,))],
    explains=("policy_entropy_gone", "loss_not_decreasing", "saturated_activation"),
)
def entropy_minimized(
    window: Window,
    *,
    looks: int = threshold(
        4, unit="backward passes", source="chosen by hand: the form of a loss does not change"
    ),
) -> Found | None:
    """The loss of a policy minimizes its entropy.

    What it detects:
        A policy gradient with an entropy bonus that has the wrong sign: the loss adds the entropy
        instead of subtracting it.

    Why it matters:
        The bonus should keep the policy from choosing the same action too early. With a plus sign,
        training removes the entropy, and the policy soon tries only one action in each state.

    Fires:
        Warning when, in at least `looks` sampled backward passes at one line, the loss contains
        log probabilities that are multiplied by returns or advantages, and adds every entropy that
        it contains. Entropies are `-(p * log(p))`, also those of
        `torch.distributions.Categorical`, and those of `torch.distributions.Normal`.

    Stays quiet:
        For entropies that are subtracted, whose coefficient is 0 or unknown, or that are in a loss
        without a policy gradient, because semi-supervised learning minimizes them. For the
        entropies in soft actor-critic losses.

    What to do:
        - Subtract the entropy: `loss = policy_loss - 0.01 * entropy`.
        - If the policy should become certain, this is no fault.

    Example:
        loss = policy_loss + 0.01 * distribution.entropy().mean()
        loss = policy_loss - 0.01 * distribution.entropy().mean()

    References:
        Mnih et al. 2016, Asynchronous methods for deep reinforcement learning,
        https://arxiv.org/abs/1602.01783
    """
    seen = list(window.seen(PolicyLoss, steps=looks))
    if not seen:
        raise NotApplicable("no policy loss was recorded")
    if all(one.entropy_added is None for one in seen):
        raise NotEnoughData("the entropies in the loss were not inspected")
    for one in seen:
        added = one.entropy_added or 0
        if added < max(looks, one.looks):
            continue
        return Found.of(
            one,
            f"the entropy of the policy is added to its loss in {added} of {one.looks} sampled "
            f"backward passes (limit {looks}): minimizing the loss makes the policy choose the "
            "same action again and again",
            step=0,
            count=added,
            evidence={"looks": one.looks, "added": added, "limit": looks},
        )
    return None
