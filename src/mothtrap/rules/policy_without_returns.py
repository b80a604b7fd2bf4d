"""LOS418: the loss of a policy does not depend on rewards."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import PolicyLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class PolicyWithoutReturns(Rule):
    """The loss of a policy does not depend on rewards.

    What it detects:
        A policy gradient whose log probabilities are multiplied by an advantage that is always 0,
        or that are not multiplied by anything although the policy chose the actions itself.

    Why it matters:
        With an advantage of 0 the policy gets no gradient. Without a factor, every action that the
        policy happens to choose is reinforced, even a bad one. In both cases the loss and the
        rewards still vary from step to step, so the run looks normal.

    Fires:
        Info when all advantages were 0, or no log probability had a factor, in each of at least
        `looks` sampled passes among the first 80 backward passes at one line.

    Stays quiet:
        For rewards that are rare but not always 0. For imitation learning, in which the policy did
        not draw the actions. For actions that are not drawn by `torch.distributions.Categorical`.

    What to do:
        - If advantages are 0, check how they are computed. Common causes are rewards that are all
          equal within a group, a mean over one sample, and returns minus themselves.
        - If there is no factor, multiply each log probability by the return or the advantage of its
          action:
          `loss = -(log_prob * returns).mean()`.

    Example:
        loss = -distribution.log_prob(action).mean()
        loss = -(distribution.log_prob(action) * (returns - baseline)).mean()

    References:
        Williams 1992, Simple statistical gradient-following algorithms for connectionist
        reinforcement learning, https://doi.org/10.1007/BF00992696
    """

    code = "LOS418"
    title = "policy loss without rewards"
    needs = (Need(facts=(PolicyLoss,)),)
    explains = ("loss_not_decreasing", "loss_oscillating", "loss_unchanged", "zero_gradient")

    looks: int = threshold(8, unit="backward passes", source="chosen by hand: rewards may be rare")

    def check(self, window: Window) -> list[Finding]:
        """Check the loss of every policy."""
        if window.total_steps < self.looks:
            raise NotEnoughData(f"needs {self.looks} steps, saw {window.total_steps}")
        zero, unweighted = self.fixes(window)
        seen = list(window.seen(PolicyLoss))
        if not seen:
            raise NotApplicable("no policy loss was recorded")
        for one in seen:
            if one.looks < self.looks:
                continue
            if one.zero == one.looks:
                words = "every log probability is multiplied by an advantage of 0"
                return [self._finding(window, one, words, zero)]
            if one.unweighted == one.looks:
                words = (
                    "the log probabilities of actions that the policy has drawn are not "
                    "multiplied by a return or an advantage"
                )
                return [self._finding(window, one, words, unweighted)]
        return []

    def _finding(self, window: Window, one: PolicyLoss, words: str, fix: str) -> Finding:
        return self.finding(
            window,
            severity=Severity.INFO,
            step=0,
            last_step=one.step,
            count=one.looks,
            message=f"{words} in {one.looks} of {one.looks} backward passes (limit {self.looks})",
            evidence={"looks": one.looks, "limit": self.looks},
            location=one.location,
            fixes=(fix,),
        )
