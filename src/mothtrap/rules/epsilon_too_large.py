"""OPT612: the optimizer's epsilon is far larger than the gradients and shrinks every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._losses import finite_part, has_players, loss_series
from mothtrap.rules._weights import optimizer_facts, optimizer_location


@dataclass(frozen=True)
class EpsilonTooLarge(Rule):
    """The optimizer's epsilon is far larger than the gradients and shrinks every step.

    What it detects:
        Adam, RMSprop and similar optimizers with an epsilon much larger than the root of the
        averaged squared gradients to which it is added.

    Why it matters:
        These optimizers divide each gradient by its usual size, so the step size equals the
        learning rate even for small gradients. If epsilon dominates the divisor, the steps become
        much smaller and the model hardly learns.

    Fires:
        Warning when, after `steps` captured steps, epsilon is at least `least` and at least
        `ratio` times the root mean square of the gradient of every tensor (median over the
        steps), and the loss has fallen by less than `fallen_share`.

    Stays quiet:
        While the loss falls: some recipes combine a large epsilon with a large learning rate.
        With several optimizers. For GANs.

    What to do:
        - PyTorch: Use the default epsilon: `Adam(..., eps=1e-8)`.
        - Keras: Use the default epsilon: `Adam(..., epsilon=1e-7)`.
        - If the epsilon is intended, raise the learning rate by the same factor.

    Example:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    References:
        Kingma, Ba 2015, Adam, https://arxiv.org/abs/1412.6980, section 2
    """

    code = "OPT612"
    needs = (
        Need(facts=(OptimizerFacts,)),
        Need(kinds=("gradient",), statistics=("l2",)),
        Need(scalars=("loss",)),
    )
    proof = Proof(title="Gradient norm", statistic="gradient.l2", joint=True, scale="log")
    explains = (*UNLEARNED, "learning_rate_too_low", "update_ratio")

    steps: int = threshold(100, unit="captured steps", source="chosen by hand")
    least: float = threshold(1e-5, unit="of epsilon", source="defaults are 1e-8 and 1e-7")
    ratio: float = threshold(
        10.0, unit="times the gradient", source="chosen by hand: steps are 11 times smaller"
    )
    fallen_share: float = threshold(0.1, unit="of the first losses", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the epsilon of the only optimizer with its gradients."""
        known = list(optimizer_facts(window).values())
        every = loss_series(window)
        if has_players(window) or len(known) > 1:
            raise NotApplicable("several optimizers are used")
        if not known or not known[0].second_moments or (known[0].epsilon or 0) < self.least:
            raise NotApplicable("no optimizer has a large epsilon")
        gradients = window.matrix("gradient", "l2")
        if gradients is None or len(gradients) < self.steps:
            raise NotEnoughData(f"fewer than {self.steps} steps with gradients were captured")
        epsilon = known[0].epsilon or 0.0
        size_T = np.sqrt([max(1, int(np.prod(one.shape))) for one in gradients.tensors])
        rms_ST = np.where(gradients.present_ST, gradients.values_ST / size_T, np.nan)
        largest_S = np.nanmax(rms_ST, axis=1, initial=0.0)
        rms = float(np.median(largest_S))
        if not 0 < rms * self.ratio <= epsilon:
            return []
        if any(self._has_fallen(finite_part(series)[1]) for series in every):
            return []
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=0,
                last_step=int(gradients.steps_S[-1]),
                count=len(gradients),
                message=(
                    f"{known[0].optimizer} adds an epsilon of {epsilon:g} to the size of the "
                    f"gradient, which is at most {rms:.2g}, so its steps are "
                    f"{100 * rms / (rms + epsilon):.2g} % of their usual size"
                ),
                evidence={"value": epsilon, "gradient": rms, "limit": self.ratio},
                location=optimizer_location(window, known[0].optimizer),
            )
        ]

    def _has_fallen(self, loss_S: Floats) -> bool:
        if not len(loss_S):
            return False
        first, last = (float(np.median(part)) for part in (loss_S[:20], loss_S[-20:]))
        return last < first - self.fallen_share * abs(first)
