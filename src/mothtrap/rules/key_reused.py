"""STR720: the same random key is used more than once."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import KeyReused as Seen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class KeyReused(Rule):
    """The same random key is used more than once.

    What it detects:
        A compiled step that draws more than once from one `jax.random` key. Also a step that is
        called with the same key every time and draws from no other key.

    Why it matters:
        A key is not a generator: the same key gives the same numbers. Dropout then drops the same
        units in every step, so they never train, and noise that should be independent is equal.

    Fires:
        Error for a step that draws from an unchanged key in `num_steps` consecutive calls.
        Warning for two draws from one key within a step.

    Stays quiet:
        For keys that are split, or folded with the step number, before each draw.

    What to do:
        - Split the key before each step: `key, own = jax.random.split(key)`, and pass `own`.
        - Fold the step number into the key: `jax.random.fold_in(key, state.step)`.

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

    num_steps: int = threshold(
        8, unit="consecutive steps with the same key", source="chosen by hand"
    )

    def check(self, window: Window) -> list[Finding]:
        """Report unchanged keys first, then keys with two draws."""
        if not len(window.steps_S):
            raise NotEnoughData("no step was recorded")
        seen = list(window.seen(Seen))
        unchanged = [one for one in seen if one.each_step >= self.num_steps]
        if unchanged:
            first, last = unchanged[0], max(unchanged, key=lambda one: one.each_step)
            message = (
                f"`{last.function}` draws from the same random key in {last.each_step} steps in a "
                f"row (limit {self.num_steps}): dropout and noise are the same in each step"
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
