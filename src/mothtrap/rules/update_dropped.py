"""OPT620: a training step returns new weights, and the old ones are used again."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import UpdateDropped as Seen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class UpdateDropped(Rule):
    """A training step returns new weights, and the old ones are used again.

    What it detects:
        A function that takes weights and returns new ones, and is called with the same old
        ones in many steps running.

    Why it matters:
        Functions of JAX change nothing in place. New weights that are not assigned are
        lost: every step starts from the same weights, and nothing is learned.

    Fires:
        Error when a function gets the very same weights in `num_steps` calls running.

    Stays quiet:
        A few calls with the same weights, as for warming up or measuring.

    What to do:
        - Assign what the step returns, and pass it to the next one:
          `state, loss = train_step(state, batch)`.

    Example:
        new_params, loss = train_step(params, batch)      # params stays what it was
        params, loss = train_step(params, batch)

    References:
        https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html
    """

    code = "OPT620"
    title = "dropped updates"
    needs = (Need(facts=(Seen,)),)
    explains = (
        "loss_not_decreasing",
        "stuck_at_chance",
        "unchanged_tensor",
        "learning_rate_too_low",
        "learning_rate_zero",
    )

    num_steps: int = threshold(8, unit="calls with the same weights running", source="by hand")

    def check(self, window: Window) -> list[Finding]:
        """Report the function whose result is dropped."""
        if not len(window.steps_S):
            raise NotEnoughData("no step was seen")
        seen = [one for one in window.seen(Seen) if one.calls >= self.num_steps]
        if not seen:
            return []
        first, last = seen[0], seen[-1]
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=max(0, first.step - first.calls + 1),
                last_step=last.step,
                count=last.calls,
                message=(
                    f"`{last.function}` returned new weights {last.calls} times running, and was "
                    "called with the old ones each time"
                ),
                evidence={"function": last.function, "calls": last.calls},
                location=last.location,
            )
        ]
