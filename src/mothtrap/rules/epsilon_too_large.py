"""OPT612: the optimizer's epsilon is far larger than the gradients and shrinks every step."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Matrix, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._losses import finite_part, has_players, loss_series
from mothtrap.rules._weights import optimizer_facts, optimizer_location


@frozen
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
        Warning when, after `steps` captured steps, epsilon is at least `least` and at least `ratio`
        times the root mean square of the gradient of every tensor (median over the steps), and the
        loss has fallen by less than `fallen_share`. Warning also for a smaller epsilon, such as the
        default, when it is above the root mean square of the gradient for at least `most` of the
        parameters, in the first quarter of the captured steps and in all of them.

    Stays quiet:
        While the loss falls, if epsilon is at least `least`: some recipes combine a large epsilon
        with a large learning rate. For a gradient that becomes small as the model converges.
        With several optimizers. For GANs.

    What to do:
        - PyTorch: Use the default epsilon: `Adam(..., eps=1e-8)`.
        - Keras: Use the default epsilon: `Adam(..., epsilon=1e-7)`.
        - If the epsilon is intended, raise the learning rate by the same factor.
        - If the epsilon is the default, find what makes the gradient so small: a factor on the
          loss, a mean over too many elements, tiny inputs.

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
        10.0, unit="times the gradient", source="chosen by hand: makes steps 11 times smaller"
    )
    fallen_share: float = threshold(0.1, unit="of the first losses", source="chosen by hand")
    most: float = threshold(
        0.5,
        unit="of the parameters",
        source="at this size, Adam's steps are half of their usual size",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the epsilon of the only optimizer with its gradients."""
        known = list(optimizer_facts(window).values())
        if has_players(window) or len(known) > 1:
            raise NotApplicable("several optimizers are used")
        if not known or not known[0].second_moments or not known[0].epsilon:
            raise NotApplicable("no optimizer has an epsilon")
        gradients = window.matrix("gradient", "l2")
        if gradients is None or len(gradients) < self.steps:
            raise NotEnoughData(f"fewer than {self.steps} steps with gradients were captured")
        elements_T = _elements(gradients)
        rms_ST = np.where(gradients.present_ST, gradients.values_ST / np.sqrt(elements_T), np.nan)
        judge = self._large if known[0].epsilon >= self.least else self._usual
        return judge(window, known[0], gradients, rms_ST)

    def _large(
        self, window: Window, optimizer: OptimizerFacts, gradients: Matrix, rms_ST: Floats
    ) -> list[Finding]:
        """Judge a large epsilon, which may be intended."""
        epsilon = optimizer.epsilon or 0.0
        rms = float(np.median(np.nanmax(rms_ST, axis=1, initial=0.0)))
        if not 0 < rms * self.ratio <= epsilon:
            return []
        if any(self._has_fallen(finite_part(series)[1]) for series in loss_series(window)):
            return []
        message = (
            f"{optimizer.optimizer} adds an epsilon of {epsilon:g} to the size of the "
            f"gradient, which is at most {rms:.2g}, so its steps are "
            f"{100 * rms / (rms + epsilon):.2g} % of their usual size"
        )
        return [self._finding(window, optimizer, gradients, rms, self.ratio, message)]

    def _usual(
        self, window: Window, optimizer: OptimizerFacts, gradients: Matrix, rms_ST: Floats
    ) -> list[Finding]:
        """Judge a default epsilon: the gradient may be too small for it."""
        epsilon = optimizer.epsilon or 0.0
        elements_T = _elements(gradients)
        known_T = ~np.isnan(rms_ST).all(axis=0)
        if not known_T.any():
            return []
        elements_T, rms_ST = elements_T[known_T], rms_ST[:, known_T]
        begin, whole = (
            np.nan_to_num(np.nanmedian(part, axis=0), nan=np.inf)
            for part in (rms_ST[: len(rms_ST) // 4], rms_ST)
        )
        below_T = (begin > 0) & (begin < epsilon) & (whole < epsilon)
        share = float(elements_T[below_T].sum() / elements_T.sum())
        if share < self.most:
            return []
        rms = float(whole[below_T].max())
        message = (
            f"the gradient of {100 * share:.0f} % of the parameters is smaller than the epsilon of "
            f"{optimizer.optimizer} ({epsilon:g}): its root mean square is at most {rms:.2g}, so "
            f"their steps are {100 * rms / (rms + epsilon):.2g} % of their usual size or less"
        )
        return [
            self._finding(
                window,
                optimizer,
                gradients,
                rms,
                self.most,
                message,
                fixes=self.fixes(window)[::-1],
            )
        ]

    def _finding(
        self,
        window: Window,
        optimizer: OptimizerFacts,
        gradients: Matrix,
        rms: float,
        limit: float,
        message: str,
        fixes: tuple[str, ...] | None = None,
    ) -> Finding:
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=int(gradients.steps_S[-1]),
            count=len(gradients),
            message=message,
            evidence={"value": optimizer.epsilon, "gradient": rms, "limit": limit},
            fixes=fixes,
            location=optimizer_location(window, optimizer.optimizer),
        )

    def _has_fallen(self, loss_S: Floats) -> bool:
        if not len(loss_S):
            return False
        first, last = (float(np.median(part)) for part in (loss_S[:20], loss_S[-20:]))
        return last < first - self.fallen_share * abs(first)


def _elements(gradients: Matrix) -> Ints:
    """Return the number of elements of each tensor, shape (T,)."""
    return np.array([max(1, int(np.prod(one.shape))) for one in gradients.tensors])
