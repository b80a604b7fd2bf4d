"""STR720: the same random key is used more than once."""

from __future__ import annotations

from mothtrap.core.facts.compiling import KeyReused
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "STR720",
    title="reused random key",
    needs=[Need(facts=(KeyReused,))],
    explains=("overfit", "loss_not_decreasing", "dead_units"),
)
def key_reused(
    window: Window,
    *,
    num_steps: int = threshold(
        8, unit="consecutive steps with the same key", source="chosen by hand"
    ),
) -> Found | None:
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
        - Flax NNX: Create `nnx.Rngs` once, before the loop, and pass it to each step: a new
          `nnx.Rngs(0)` always begins with the same keys.

    Example:
        key = jax.random.key(0)
        state = train_step(state, batch, key)             # the same mask in every step
        key, own = jax.random.split(key)
        state = train_step(state, batch, own)

    References:
        https://docs.jax.dev/en/latest/random-numbers.html
    """
    seen = list(window.seen(KeyReused, steps=1))
    unchanged = [one for one in seen if one.each_step >= num_steps]
    if unchanged:
        first, last = unchanged[0], max(unchanged, key=lambda one: one.each_step)
        return Found.of(
            last,
            f"`{last.function}` draws from the same random key in {last.each_step} steps in a row "
            f"(limit {num_steps}): dropout and noise are the same in each step",
            severity="error",
            step=max(0, first.step - first.each_step + 1),
            count=last.each_step,
            evidence={"function": last.function, "steps": last.each_step},
        )
    for one in seen:
        if len(one.draws) > 1:
            lines = " and ".join(dict.fromkeys(one.draws))
            return Found.of(
                one,
                f"`{one.function}` draws {len(one.draws)} times from one random key ({lines})",
                count=max(1, one.each_step),
                evidence={"function": one.function, "steps": one.each_step},
            )
    return None
