"""OPT608: an optimizer steps although no gradient changed since its last step."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import GradientsCleared
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.records import GradientState
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Ints, Series, Window
from mothtrap.rules._losses import loss_location
from mothtrap.rules._stretches import stretches


@frozen
class StepWithoutBackward(Rule):
    """An optimizer steps although no gradient was computed since its last step.

    What it detects:
        Optimizer steps in which none of the gradients changed since the optimizer's previous step.
        Either the same gradients are applied again, or there are none, as when `zero_grad()` is
        called between backward and step.

    Why it matters:
        Applying old gradients again moves the weights in a direction that was not computed for
        them. Stepping without gradients does nothing, so the model does not learn.

    Fires:
        Error as soon as the same gradients are applied again. Error after `absent_steps`
        consecutive steps of the optimizer without any gradient; only a warning when another
        optimizer stepped with fresh gradients in those steps.

    Stays quiet:
        One step without gradients before training (which silences a scheduler's warning). PyTorch:
        Steps between which nothing is computed, which plot a schedule. LBFGS and other closures.
        Several optimizers after one backward pass. Steps that a gradient scaler skips.
        Gradients that are assigned by hand.

    What to do:
        - PyTorch: Call `loss.backward()` before every `optimizer.step()`.
        - PyTorch: Check that the optimizer holds the parameters of the model that the loss uses
          (each of two models has its own), and that the loss depends on them: no `.detach()`,
          `.item()`, `no_grad` or new tensor in between.
        - Step only the optimizers whose parameters took part in this backward pass.
        - PyTorch: Call `zero_grad()` before `backward()` or after `step()`. Between them it clears
          the gradients that the step should apply.

    Example:
        loss = criterion(model(x), y)
        loss.backward()      # without it the step applies old gradients, or none
        optimizer.step()

    References:
        https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step
    """

    code = "OPT608"
    needs = (
        Need(scalars=("gradient_state",)),
        Need(facts=(GradientsCleared,), each_step=True, optional=True),
        Need(scalars=("loss",), optional=True),
    )
    proof = Proof(title="State of the gradient at the step", scalars=("gradient_state",))
    explains = (
        *("loss_not_decreasing", "stuck_at_chance", "loss_diverging"),
        "train_mode_in_evaluation",  # forwards without backward look like evaluations
    )

    absent_steps: int = threshold(
        3,
        unit="consecutive steps of the optimizer",
        source="chosen by hand: a single priming step before training is common",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the steps of every optimizer."""
        every = [s for s in window.scalars("gradient_state") if len(s)]
        if not every:
            raise NotEnoughData("no optimizer step with observed gradients was recorded")
        skipped = window.steps_S[window.skipped_S]
        found = [f for series in every for f in self._judge(window, series, skipped, every)]
        return sorted(found, key=lambda f: (f.severity.rank, f.step))[:1]

    def _judge(
        self, window: Window, series: Series, skipped: Ints, every: list[Series]
    ) -> list[Finding]:
        applied = ~np.isin(series.steps_S, skipped)
        unchanged = (series.values_S == GradientState.UNCHANGED) & applied
        if unchanged.any():
            return [self._finding(window, series, unchanged, Severity.ERROR, "applied the same")]
        absent = (series.values_S == GradientState.ABSENT) & applied
        long = [(a, b) for a, b in stretches(absent) if b - a >= self.absent_steps]
        if not long:
            return []
        absent[: long[0][0]] = False
        fresh_steps = {
            int(step)
            for other in every
            if other is not series
            for step in other.steps_S[other.values_S == GradientState.FRESH]
        }
        lonely = not fresh_steps & set(series.steps_S[absent].tolist())
        severity = Severity.ERROR if lonely else Severity.WARNING
        return [self._finding(window, series, absent, severity, "has no")]

    def _finding(
        self, window: Window, series: Series, mask_S: Bools, severity: Severity, did: str
    ) -> Finding:
        held = np.flatnonzero(mask_S)
        apart = _loss_of_others(window, series, mask_S) if did.endswith("same") else None
        step, last = (int(series.steps_S[held[place]]) for place in (0, -1))
        again = " again, without a backward pass in between" if did.endswith("same") else " at all"
        if apart is not None:
            again = (
                f" again: the backward pass before the step, of the loss at {apart.location}, "
                "computed no gradient for its parameters"
            )
        cleared = _cleared(window, series.of, step, last) if did == "has no" else None
        fixes = self.fixes(window)
        if cleared is not None:
            fixes = (fixes[-1],)
            again = ": they were cleared between backward and step"
        elif any(series.of in s.optimizers for s in window.scalars("loss")):
            fixes = (fixes[1], fixes[0], *fixes[2:-1])  # a backward did run, but not to here
        return self.finding(
            window,
            severity=severity,
            step=step,
            last_step=last,
            count=len(held),
            message=f"{series.of or 'the optimizer'} {did} gradients{again}, from step {step}",
            evidence={"optimizer": series.of, "steps": len(held), "absent": did == "has no"},
            fixes=fixes,
            location=(
                (cleared and cleared.location)
                or (apart and apart.location)
                or loss_location(window, series.of)
            ),
        )


def _loss_of_others(window: Window, series: Series, mask_S: Bools) -> Series | None:
    """Return the loss that was differentiated before the given steps, and only before these."""
    steps, others = set(series.steps_S[mask_S].tolist()), set(series.steps_S[~mask_S].tolist())
    for loss in window.scalars("loss"):
        mine = set(loss.steps_S.tolist())
        if loss.location and series.of in loss.optimizers and steps <= mine and not others & mine:
            return loss
    return None


def _cleared(window: Window, optimizer: str, step: int, last: int) -> GradientsCleared | None:
    """Return the observed clearing of gradients in some steps of an optimizer."""
    every = window.seen(GradientsCleared)
    return next((s for s in every if s.optimizer == optimizer and step <= s.step <= last), None)
