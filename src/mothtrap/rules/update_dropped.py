"""OPT620: the updates of a training step are discarded."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

WITHOUT_STEP = (
    "Without a step, the weights keep their initial values, and the model learns nothing."
)


@rule(
    "OPT620",
    title="dropped updates",
    needs=[Need(facts=(UpdateDropped,))],
    explains=(
        "loss_not_decreasing",
        "stuck_at_chance",
        "unchanged_tensor",
        "learning_rate_too_low",
        "learning_rate_zero",
        "overfit",
        "overtraining",
    ),
)
def update_dropped(
    window: Window,
    *,
    num_steps: int = threshold(
        8, unit="consecutive calls with the same weights", source="chosen by hand"
    ),
) -> Found | None:
    """A training step computes new weights or a new state, but the old ones are used again.

    What it detects:
        A function that takes weights, returns new ones, and is called with the same old ones in
        many consecutive steps: its result is not assigned, it returns the old weights, or it
        changes a model in place inside `jax.jit`. The same for the state of an optimizer, and for
        the batch statistics of flax that a step computes and does not return. A Keras
        `train_step`, or a step of a custom loop, that computes gradients and passes them to no
        optimizer, or applies them to the weights of another model. A PyTorch script that computes
        gradients and clears them, while no optimizer ever steps.

    Why it matters:
        JAX functions change nothing in place. New weights that are not returned and assigned are
        lost: every step starts from the same weights, and the model learns nothing. With an old
        state, an optimizer stays at its first step: a warmup never proceeds, and momentum never
        builds up. With old batch statistics, evaluations measure another model than the trained
        one.

    Fires:
        Error when a function gets the very same weights in `num_steps` consecutive calls, or cannot
        return other ones. Error at the end of a PyTorch script that cleared the gradients of an
        optimizer, called `backward` at least `num_steps` times, and changed no weight. Warning
        when a function gets the same state with new weights, or computes a state and does not
        return it.

    Stays quiet:
        A few calls with the same weights, as for warm-up or benchmarking.

    What to do:
        - Assign the result of the step, and pass it to the next step: `state, loss =
          train_step(state, batch)`.
        - PyTorch: Call `optimizer.step()` after `loss.backward()`.

    Example:
        new_params, loss = train_step(params, batch)      # params stays what it was
        params, loss = train_step(params, batch)

    References:
        https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html
    """
    seen = [one for one in window.seen(UpdateDropped) if one.calls >= num_steps]
    if not seen:
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        return None
    of_weights = [one for one in seen if not one.state]
    told = of_weights or seen
    first, last = told[0], told[-1]
    message, fixes = _words(last)
    return Found.of(
        last,
        message,
        severity="error" if of_weights else "warning",
        step=max(0, first.step - first.calls + 1),
        count=last.calls,
        fixes=fixes,
        why=WITHOUT_STEP if last.why == "not stepped" else None,
        evidence={"function": last.function, "calls": last.calls, "why": last.why},
    )


def _words(seen: UpdateDropped) -> tuple[str, tuple[str, ...] | None]:
    """Return the message, and the fixes that the docstring does not have."""
    function = f"`{seen.function}`"
    if seen.why == "unchanged":
        return f"{function} returns its input weights: the updated weights are lost", (
            "Return the result of `optax.apply_updates(params, updates)`, or of "
            "`state.apply_gradients(grads=grads)`: neither changes its arguments.",
        )
    if seen.why == "in place":
        return f"{function} updates its model in place, and `jax.jit` drops such changes", (
            "Compile the step with `nnx.jit` instead of `jax.jit`.",
            "Or return the new weights, and assign them.",
        )
    if seen.why == "not applied":
        return (
            f"{function} computed gradients in {seen.calls} consecutive calls, but no optimizer "
            "got them: the weights do not change",
            ("Call `optimizer.apply(gradients, model.trainable_variables)` after that.",),
        )
    if seen.why == "other weights":
        return (
            f"{function} applied the gradients of one model to the weights of another model in "
            f"{seen.calls} inspected steps: the model that computes the loss does not change",
            (
                "Pass the variables for which the gradients were computed: "
                "`optimizer.apply_gradients(zip(gradients, model.trainable_variables))`.",
            ),
        )
    if seen.why == "not stepped":
        return (
            f"backward ran {seen.calls} times, but {seen.function} never stepped: the weights do "
            "not change",
            ("Call `optimizer.step()` after `loss.backward()`.",),
        )
    if seen.why == "not returned":
        of_norms = seen.state == "batch_stats"
        effect = "evaluations use" if of_norms else "each step begins with"
        new = f'updates["{seen.state}"]' if of_norms else "new_state"
        return (
            f"{function} computed new `{seen.state}` in each of {seen.calls} calls, but did not "
            f"return them: {effect} the initial values",
            (f"Return the new values: `state.replace({seen.state}={new})`.",),
        )
    if seen.state:
        return (
            f"{function} returned a new `{seen.state}` in {seen.calls} consecutive calls, but was "
            "called with the old value each time",
            (f"Assign `{seen.state}` from the result of the step, and pass it to the next step.",),
        )
    return (
        f"{function} returned new weights in {seen.calls} consecutive calls, but was called with "
        "the old weights each time"
    ), None
