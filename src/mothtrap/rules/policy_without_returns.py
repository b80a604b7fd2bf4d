"""LOS418: the loss of a policy does not depend on rewards."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS418",
    title="policy loss without rewards",
    severity="info",
    needs=[Need(facts=(PolicyLoss,))],
    explains=("loss_not_decreasing", "loss_oscillating", "loss_unchanged", "zero_gradient"),
)
def policy_without_returns(
    window: Window,
    *,
    looks: int = threshold(8, unit="backward passes", source="chosen by hand: rewards may be rare"),
    equal: int = threshold(
        4, unit="backward passes", source="chosen by hand: each has at least eight factors"
    ),
) -> Found | None:
    """The loss of a policy does not depend on rewards.

    What it detects:
        A policy gradient whose log probabilities are multiplied by an advantage that is always 0,
        or always the same number, or that are not multiplied by anything although the policy chose
        the actions itself.

    Why it matters:
        With an advantage of 0 the policy gets no gradient. Without a factor, or with one factor for
        all actions, every action that the policy happens to choose is reinforced, even a bad one.
        In both cases the loss and the rewards still vary from step to step, so the run looks
        normal.

    Fires:
        Info when all advantages were 0, or no log probability had a factor, in each of at least
        `looks` sampled passes among the first 80 backward passes at one line. Warning when eight or
        more log probabilities were multiplied by one number in each of at least `equal` passes, and
        the script gets rewards from an environment, or discounts them.

    Stays quiet:
        For rewards that are rare but not always 0. For returns that differ between episodes. For
        imitation learning, in which the policy did not draw the actions. For actions that are not
        drawn by `torch.distributions.Categorical`.

    What to do:
        - If advantages are 0, check how they are computed. Common causes are rewards that are all
          equal within a group, a mean over one sample, and returns minus themselves.
        - If there is no factor, multiply each log probability by the return or the advantage of its
          action:
          `loss = -(log_prob * returns).mean()`.
        - If all factors are equal, check the loop that sums the rewards: it runs from the last step
          to the first, `for t in reversed(range(n))`.

    Example:
        loss = -distribution.log_prob(action).mean()
        loss = -(distribution.log_prob(action) * (returns - baseline)).mean()

    References:
        Williams 1992, Simple statistical gradient-following algorithms for connectionist
        reinforcement learning, https://doi.org/10.1007/BF00992696
    """
    seen = list(window.seen(PolicyLoss, steps=min(looks, equal)))
    if not seen:
        raise NotApplicable("no policy loss was recorded")
    for one in seen:
        if one.constant is not None and one.looks >= equal:
            return _constant(one, equal)
        if one.looks < looks or one.looks not in (one.zero, one.unweighted):
            continue
        words = "every log probability is multiplied by an advantage of 0"
        if one.zero < one.looks:
            words = (
                "the log probabilities of actions that the policy has drawn are not multiplied by "
                "a return or an advantage"
            )
        return Found.of(
            one,
            f"{words} in {one.looks} of {one.looks} backward passes (limit {looks})",
            step=0,
            count=one.looks,
            evidence={"looks": one.looks, "limit": looks},
            fixes=(0,) if one.zero == one.looks else (1,),
        )
    return None


def _constant(one: PolicyLoss, limit: int) -> Found:
    return Found.of(
        one,
        f"every log probability is multiplied by the same number, {one.constant:g}, in {one.looks} "
        f"of {one.looks} backward passes (limit {limit}): rewards make no difference",
        severity="warning",
        step=0,
        count=one.looks,
        evidence={"looks": one.looks, "limit": limit, "weight": one.constant},
        fixes=(2,),
    )
