"""GRD105: gradients of earlier steps are still in the gradients that are applied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import stretches
from mothtrap.rules._weights import step_location


@dataclass(frozen=True)
class StaleGradient(Rule):
    """Gradients of earlier steps are added to those of this step.

    What it detects:
        An optimizer whose gradients were never clean (none or zero) at the beginning
        of a backward since its own step before; or a closure that the optimizer evaluates
        several times a step and that does not clear them.

    Why it matters:
        Backward adds to what is there. Without clearing, every step applies the sum of
        all gradients so far: the direction is stale and its length grows without end.

    Fires:
        Error when it holds in `own_steps` steps of an optimizer running, or in as many
        evaluations of a closure within one step.

    Stays quiet:
        Gradient accumulation (no step lies between its micro-batches), GANs (the
        gradients of the other player are cleared before its own backward), SAM, closures
        that clear them, and clearing before or after the step.

    What to do:
        - Call `optimizer.zero_grad()` at the beginning of the closure.
        - Call `optimizer.zero_grad()` once per step, before backward or after the step.
        - When gradients are accumulated on purpose, step only once per accumulation.

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
        2,
        unit="steps of the optimizer running, or evaluations in one",
        source="chosen by hand: one step can be the end of a deliberate accumulation",
    )

    def check(self, window: Window) -> list[Finding]:
        """Look at every optimizer's own steps."""
        every = [s for s in window.scalars("stale_gradient") if len(s)]
        if not every:
            raise NotEnoughData("no optimizer step was seen whose gradients were watched")
        found = [
            (int(series.steps_S[start]), series, start)
            for series in every
            for start, stop in stretches(series.values_S > 0)
            if stop - start >= self.own_steps or series.values_S[start:stop].max() >= self.own_steps
        ]
        if not found:
            return []
        step, series, start = min(found, key=lambda item: item[0])
        return [self._judge(window, series, start, step)]

    def _judge(self, window: Window, series: Series, start: int, step: int) -> Finding:
        stale = np.flatnonzero(series.values_S > 0)
        stale = stale[stale >= start]
        evaluations = int(series.values_S[stale].max())
        closure = evaluations > 1
        times = f"{evaluations} evaluations of its closure" if closure else f"{len(stale)} steps"
        clears, *others = self.fixes(window)
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=step,
            last_step=int(series.steps_S[stale[-1]]),
            count=len(stale),
            message=(
                f"{series.of or 'the optimizer'} applied gradients that were not cleared "
                f"after its previous {'evaluation' if closure else 'step'}, in {times}"
            ),
            fixes=(clears,) if closure else tuple(others),
            evidence={"optimizer": series.of, "steps": len(stale), "limit": self.own_steps},
            location=step_location(window, series.of),
        )
