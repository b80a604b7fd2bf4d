"""RUN920: a compiled step calls back into Python."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import HostCallback
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@frozen
class CallbackInStep(Rule):
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

    code = "RUN920"
    needs = (Need(facts=(HostCallback,)),)

    def check(self, window: Window) -> list[Finding]:
        """Report the first compiled step with a callback."""
        if not len(window.steps_S):
            raise NotEnoughData("no step was recorded")
        seen = list(window.seen(HostCallback))
        if not seen:
            return []
        first = seen[0]
        return [
            self.finding(
                window,
                severity=Severity.INFO,
                step=first.step,
                last_step=first.step,
                count=1,
                message=(
                    f"the compiled step `{first.function}` calls back into Python in every step, "
                    f"through {', '.join(first.callbacks[:3])}"
                ),
                evidence={"function": first.function},
                location=first.location,
            )
        ]
