"""GRD105: gradients of earlier steps are added to the applied gradients."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import stretches
from mothtrap.rules._weights import step_location


@frozen
class StaleGradient(Rule):
    """Gradients of earlier steps are added to the gradients of the current step.

    What it detects:
        An optimizer whose gradients were never cleared (None or zero) at the start of a backward
        pass since its previous step. Or a closure that the optimizer evaluates several times per
        step and that does not clear the gradients.

    Why it matters:
        Backward adds to the existing gradients. Without clearing, every step applies the sum of all
        gradients so far: the direction is stale, and the norm keeps growing.

    Fires:
        Error when this happens in `own_steps` consecutive steps of an optimizer, or in
        `evaluations` evaluations of a closure within one step. Warning when it happens in fewer
        consecutive steps, but again and again: in at least `seldom` steps, which are
        `seldom_share` of the steps since the first of them.

    Stays quiet:
        Gradient accumulation (no step between the micro-batches). GANs (the other player's
        gradients are cleared before its own backward pass). SAM. Closures that clear gradients.
        Gradients cleared before or after the step.

    What to do:
        - PyTorch: Call `optimizer.zero_grad()` at the beginning of the closure.
        - PyTorch: Call `optimizer.zero_grad()` once per step, before backward or after the step.
        - If you accumulate gradients on purpose, step only once per accumulation.

    Example:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    """

    code = "GRD105"
    needs = (
        Need(scalars=("stale_gradient",)),
        Need(scalars=("loss",), optional=True),
        Need(facts=(OptimizerFacts,), optional=True),
    )
    proof = Proof(title="Steps with the gradient of an earlier step", scalars=("stale_gradient",))
    explains = (
        *UNLEARNED,
        "activation_growth",
        "dead_units",
        "exploding_gradient",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "nonfinite_activation",
        "nonfinite_gradient",
        "nonfinite_loss",
        "overfit",
        "overtraining",
        "weight_growth",
    )

    own_steps: int = threshold(
        4,
        unit="consecutive steps of the optimizer",
        source="measured: a classifier whose gradients are cleared in every 4th step loses nothing",
    )
    evaluations: int = threshold(
        2, unit="evaluations of a closure in one step", source="chosen by hand"
    )
    seldom: int = threshold(20, unit="steps of the optimizer", source="chosen by hand")
    seldom_share: float = threshold(
        0.4, unit="of the steps since the first of them", source="chosen by hand: every second step"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the steps of every optimizer."""
        every = [s for s in window.scalars("stale_gradient") if len(s)]
        if not every:
            raise NotEnoughData("no optimizer step with observed gradients was recorded")
        found = [
            (int(series.steps_S[start]), series, start)
            for series in every
            for start, stop in stretches(series.values_S > 0)
            if stop - start >= self.own_steps
            or series.values_S[start:stop].max() >= self.evaluations
        ]
        severity = Severity.ERROR
        if not found:
            severity = Severity.WARNING
            found = [
                (int(series.steps_S[start]), series, start)
                for series in every
                if (stale_S := series.values_S > 0).sum() >= self.seldom
                and stale_S[(start := int(stale_S.argmax())) :].mean() >= self.seldom_share
            ]
        if not found:
            return []
        step, series, start = min(found, key=lambda item: item[0])
        return [self._judge(window, series, start, step, severity)]

    def _judge(
        self, window: Window, series: Series, start: int, step: int, severity: Severity
    ) -> Finding:
        stale = np.flatnonzero(series.values_S > 0)
        stale = stale[stale >= start]
        evaluations = int(series.values_S[stale].max())
        closure = evaluations > 1
        times = f"{evaluations} evaluations of its closure" if closure else f"{len(stale)} steps"
        clears, *others = self.fixes(window)
        return self.finding(
            window,
            severity=severity,
            step=step,
            last_step=int(series.steps_S[stale[-1]]),
            count=len(stale),
            message=(
                f"in {times}, {series.of or 'the optimizer'} applied gradients that were not "
                f"cleared after its previous {'evaluation' if closure else 'step'}"
            ),
            fixes=(clears,) if closure else tuple(others),
            evidence={"optimizer": series.of, "steps": len(stale), "limit": self.own_steps},
            location=step_location(window, series.of),
        )
