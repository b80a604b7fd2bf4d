"""Facts about policies and the losses that train them."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class PolicyEntropy(Fact, frozen=True, kw_only=True, tag=True):
    """Entropy of the distributions from which a policy draws its actions.

    `share` is the mean over the last 5 steps with draws, as a share of the largest possible entropy
    of `choices` choices; `first` is the mean over the first 5. `looks` is the number of steps so
    far. Reported in steps 5, 10, 20, ... with draws. `location` is the line of the latest loss.
    """

    share: float
    first: float
    choices: int
    looks: int
    location: str | None = None


class PolicyLoss(Fact, frozen=True, kw_only=True, tag=True):
    """Weights of the log probabilities of actions in the loss of a policy.

    In `zero` of `looks` inspected backward passes of a line, all of them were multiplied by 0. In
    `unweighted` of them they were not multiplied by anything, although the policy had drawn the
    actions itself. In `added` of them all products had a plus sign in the loss, although the script
    maximizes the rewards of an environment. `by_value`: instead of products, the loss contains the
    value that a network, which the loss does not train, predicts for the policy's actions.
    `constant` is the weight of the log probabilities if it was the same number in all passes. In
    `entropy_added` of them the loss also added the entropy of a policy; None = not inspected.
    `location` is the line of the loss.
    """

    looks: int
    zero: int = 0
    unweighted: int = 0
    added: int = 0
    by_value: bool = False
    constant: float | None = None
    entropy_added: int | None = None
    location: str | None = None


class UnreadEnds(Fact, frozen=True, kw_only=True, tag=True):
    """A function receives the ends of episodes as `name`, discounts values, and never reads them.

    `inverted`: it multiplies the discounted value by them, so that only ends have a next value.
    `location` is the line that discounts a value. Reported once.
    """

    name: str
    inverted: bool = False
    location: str | None = None
