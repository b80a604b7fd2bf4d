"""OPT620: the updates of a training step are lost."""

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
    """A training step makes new weights, or a new state, and the old ones are used again.

    What it detects:
        A function that takes weights and makes new ones, and is called with the same old
        ones in many steps running: its result is not assigned, it returns the old weights, or
        it changes a model in place inside `jax.jit`. The same of the state of an optimizer. A
        `train_step` of Keras, or a step of a loop, that computes gradients and hands them to no
        optimizer.

    Why it matters:
        Functions of JAX change nothing in place. New weights that are not returned and
        assigned are lost: every step starts from the same weights, and nothing is learned.
        With an old state an optimizer is at its first step for ever: a warmup stays at its
        beginning, and momentum never builds up.

    Fires:
        Error when a function gets the very same weights in `num_steps` calls running, or can
        hand on no others. Warning when it gets the same state, and new weights.

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
        of_weights = [one for one in seen if not one.state]
        told = of_weights or seen
        first, last = told[0], told[-1]
        message, fixes = _words(last)
        return [
            self.finding(
                window,
                severity=Severity.ERROR if of_weights else Severity.WARNING,
                step=max(0, first.step - first.calls + 1),
                last_step=last.step,
                count=last.calls,
                message=message,
                fixes=fixes,
                evidence={"function": last.function, "calls": last.calls},
                location=last.location,
            )
        ]


def _words(seen: Seen) -> tuple[str, tuple[str, ...] | None]:
    """Return what was seen, and what to do where the docstring does not say it."""
    function = f"`{seen.function}`"
    if seen.why == "unchanged":
        return f"{function} returns the weights that it was given: the updated ones are lost", (
            "Return the result of `optax.apply_updates(params, updates)`, or of "
            "`state.apply_gradients(grads=grads)`: neither changes its arguments.",
        )
    if seen.why == "in place":
        return f"{function} updates its model in place, and `jax.jit` drops such changes", (
            "Compile the step with `nnx.jit` in place of `jax.jit`.",
            "Or return the new weights, and assign them.",
        )
    if seen.why == "not applied":
        return (
            f"{function} computed gradients {seen.calls} times running, and no optimizer got them: "
            "the weights stay as they are",
            ("Call `optimizer.apply(gradients, model.trainable_variables)` behind them.",),
        )
    if seen.state:
        return (
            f"{function} returned a new `{seen.state}` {seen.calls} times running, and was called "
            "with the old one each time",
            (f"Assign `{seen.state}` from what the step returns, and pass it to the next one.",),
        )
    return (
        f"{function} returned new weights {seen.calls} times running, and was called with the old "
        "ones each time"
    ), None
