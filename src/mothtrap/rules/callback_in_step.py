"""RUN920: a compiled step calls back into Python."""

from __future__ import annotations

from mothtrap.core.facts.compiling import HostCallback
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule("RUN920", severity="info", needs=[Need(facts=(HostCallback,))])
def callback_in_step(window: Window) -> Found | None:
    """A compiled step calls back into Python.

    What it detects:
        `jax.debug.print`, `jax.debug.callback`, `jax.pure_callback` and `io_callback` in a
        compiled training step.

    Why it matters:
        The device waits for Python in every step, for 2 ms or more. mothtrap does not run such a
        step a second time, so it cannot observe gradients.

    Fires:
        Info, once.

    Stays quiet:
        For callbacks in functions that are not training steps.

    What to do:
        - Return the value from the step and print it outside.

    Example:
        jax.debug.print("loss {}", loss)                  # inside the compiled step
        state, loss = train_step(state, batch); print(loss)

    References:
        https://docs.jax.dev/en/latest/external-callbacks.html
    """
    first = next(window.seen(HostCallback, steps=1), None)
    if first is None:
        return None
    return Found.of(
        first,
        f"the compiled step `{first.function}` calls back into Python in every step, through "
        f"{', '.join(first.callbacks[:3])}",
        evidence={"function": first.function},
    )
