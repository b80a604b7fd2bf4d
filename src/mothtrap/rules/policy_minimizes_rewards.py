"""LOS420: the loss of a policy makes rewarded actions less probable."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.optimizers import OptimizerFacts, UpdateDirection
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._weights import optimizer_facts


@rule(
    "LOS420",
    title="policy minimizes rewards",
    needs=[
        Need(facts=(PolicyLoss,)),
        Need(facts=(OptimizerFacts, UpdateDirection), optional=True),
    ],
    explains=(
        *UNLEARNED,
        "exploding_gradient",
        "gradient_spike",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "policy_entropy_gone",
        "saturated_activation",
        "weight_growth",
        "wrong_sign",
    ),
)
def policy_minimizes_rewards(
    window: Window,
    *,
    looks: int = threshold(
        4, unit="backward passes", source="chosen by hand: the form of a loss does not change"
    ),
) -> Found | None:
    """The loss of a policy makes rewarded actions less probable.

    What it detects:
        A policy gradient whose log probabilities, multiplied by returns or advantages, are added to
        the loss instead of subtracted. Also a policy that is trained through a value network, as in
        DDPG, if its loss adds the value of its actions.

    Why it matters:
        An optimizer minimizes its loss. With a plus sign, actions become less probable the more
        reward follows them: the loss falls, and so do the rewards.

    Fires:
        Warning when, in each of at least `looks` sampled backward passes at one line, all products
        of a log probability (or a ratio of two probabilities) and a number without a gradient have
        a plus sign. Also when, in 8 backward passes, the loss of a policy adds the output of a
        value network that this loss does not train. In PyTorch, another optimizer must train the
        value network with squared errors. In all cases, the script must get the rewards from an
        environment (`state, reward, done, info = env.step(action)`), or discount them
        (`total = reward + gamma * total`).

    Stays quiet:
        If a file of the script negates or subtracts rewards, returns, or advantages, as in `value -
        returns`, because these may be costs. If a log probability in another loss has a minus sign,
        as in two-player games. Without an environment or discounts, as in routing problems whose
        tour length is minimized. For optimizers with `maximize=True`, and for updates without an
        optimizer.

    What to do:
        - Subtract the term: `loss = -(log_prob * returns).mean()`.
        - Subtract the value: `loss = -critic(state, policy(state)).mean()`.
        - If the numbers are costs, name the variables accordingly, or return negative costs from
          the environment.

    Example:
        loss = (distribution.log_prob(action) * returns).mean()
        loss = -(distribution.log_prob(action) * returns).mean()

    References:
        Williams 1992, Simple statistical gradient-following algorithms for connectionist
        reinforcement learning, https://doi.org/10.1007/BF00992696
    """
    seen = list(window.seen(PolicyLoss, steps=looks))
    if not seen:
        raise NotApplicable("no policy loss was recorded")
    if not _is_minimized(window):
        raise NotApplicable("the loss is not minimized by an optimizer")
    if any(one.added < one.looks for one in seen):
        return None  # with two players, one minimizes the rewards of the other
    for one in seen:
        if one.looks >= looks:
            what = (
                "the log probabilities of actions, multiplied by returns or advantages, are added "
                f"to the loss in {one.looks} of {one.looks} sampled backward passes: minimizing it "
                "makes rewarded actions less probable"
            )
            if one.by_value:
                what = (
                    "the value that a network predicts for the actions of the policy is added to "
                    f"the loss in {one.looks} of {one.looks} sampled backward passes: minimizing "
                    "it makes the policy choose the worst actions"
                )
            return Found.of(
                one,
                what,
                step=0,
                count=one.looks,
                evidence={"looks": one.looks, "limit": looks},
                fixes=(1, 2) if one.by_value else (0, 2),
            )
    return None


def _is_minimized(window: Window) -> bool:
    """Return whether the optimizers descend; in JAX, their first steps show it."""
    optimizers = optimizer_facts(window).values()
    if optimizers:
        return not any(facts.maximizes for facts in optimizers)
    cosines = [cosine for one in window.seen(UpdateDirection) for cosine in one.cosines]
    return bool(cosines) and max(cosines) < 0
