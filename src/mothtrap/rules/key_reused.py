"""STR720: random numbers are drawn twice from the same key."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import KeyReused as Seen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class KeyReused(Rule):
    """Random numbers are drawn twice from the same key.

    What it detects:
        A key of `jax.random` from which a compiled step draws more than once, and a step
        that is called with the same key again and again and draws from nothing else.

    Why it matters:
        A key is a number and not a generator: the same key gives the same numbers. Dropout
        then removes the same units in every step, which never train, and noise that should
        be independent is equal.

    Fires:
        Error for a step that draws from an unchanged key in `num_steps` calls running.
        Warning for two draws from one key within a step.

    Stays quiet:
        Keys that are split, or folded with the number of the step, before they are drawn
        from.

    What to do:
        - Split the key before each step: `key, own = jax.random.split(key)`, and pass `own`.
        - Fold the number of the step into the key: `jax.random.fold_in(key, state.step)`.

    Example:
        key = jax.random.key(0)
        state = train_step(state, batch, key)             # the same mask in every step
        key, own = jax.random.split(key)
        state = train_step(state, batch, own)

    References:
        https://docs.jax.dev/en/latest/random-numbers.html
    """

    code = "STR720"
    title = "reused random key"
    needs = (Need(facts=(Seen,)),)
    explains = ("overfit", "loss_not_decreasing", "dead_units")

    num_steps: int = threshold(8, unit="steps with the same key running", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Report unchanged keys first, then keys that are drawn from twice."""
        if not len(window.steps_S):
            raise NotEnoughData("no step was seen")
        seen = list(window.seen(Seen))
        unchanged = [one for one in seen if one.each_step >= self.num_steps]
        if unchanged:
            first, last = unchanged[0], max(unchanged, key=lambda one: one.each_step)
            message = (
                f"`{last.function}` draws from the same random key in {last.each_step} steps "
                "running: dropout and noise are the same in each"
            )
            onset = max(0, first.step - first.each_step + 1)
            return [self._finding(window, last, Severity.ERROR, onset, message)]
        twice = [one for one in seen if len(one.draws) > 1]
        if not twice:
            return []
        first = twice[0]
        lines = " and ".join(dict.fromkeys(first.draws))
        message = f"`{first.function}` draws {len(first.draws)} times from one random key ({lines})"
        return [self._finding(window, first, Severity.WARNING, first.step, message)]

    def _finding(
        self, window: Window, seen: Seen, severity: Severity, step: int, message: str
    ) -> Finding:
        return self.finding(
            window,
            severity=severity,
            step=step,
            last_step=seen.step,
            count=max(1, seen.each_step),
            message=message,
            evidence={"function": seen.function, "steps": seen.each_step},
            location=seen.location,
        )
