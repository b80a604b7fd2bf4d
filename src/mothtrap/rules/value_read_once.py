"""STR730: a compiled function keeps a value that it read while it was traced."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import ValueReadOnce
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "STR730",
    title="value fixed by tracing",
    needs=[Need(facts=(ValueReadOnce,))],
    explains=(
        "loss_not_decreasing",
        "loss_unchanged",
        "stuck_at_chance",
        "overfit",
        "labels_unrelated",
        "learning_rate_too_high",
        "evaluation_unchanged",
        "repeated_batch",
    ),
)
def value_read_once(
    window: Window,
    *,
    num_calls: int = threshold(8, unit="calls since the trace", source="chosen by hand"),
) -> Found | None:
    """A compiled function keeps a value that it read while it was traced.

    What it detects:
        A compiled function that reads a variable of the script which the script changes later,
        instead of getting it as an argument. JAX: functions under `jax.jit`. TensorFlow: functions
        under `tf.function`, and the `train_step` of a Keras model that reads a number such as
        `self.beta`. Also a compiled function that draws random numbers with NumPy or `random`.

    Why it matters:
        The Python code of a compiled function runs only while it is traced. The values that it
        reads become constants of the compiled program: later values have no effect, and random
        numbers are the same in each call.

    Fires:
        Warning when the value has changed, but the function was not traced again, after `num_calls`
        calls or more. Warning when the function drew random numbers while it was traced.

    Stays quiet:
        For arguments, for TensorFlow and Keras variables, for values that stay the same, and for
        numbers that the function changes itself, such as a counter of its traces.

    What to do:
        - Pass the value as an argument.
        - Keras: Store the number in a `tf.Variable`, and change it with `assign`.

    Example:
        self.beta = 0.0                       # `train_step` ignores it if a callback changes it
        self.beta = tf.Variable(0.0)          # the callback calls `self.beta.assign(...)`

    References:
        https://www.tensorflow.org/guide/function#depending_on_python_global_and_free_variables
        https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html
    """
    seen = list(window.seen(ValueReadOnce))
    if not seen and not window.total_steps:
        raise NotEnoughData("no step was recorded")
    for one in seen:
        if one.calls < num_calls:
            continue
        function = f"`{one.function}`"
        if one.kind == "random":
            message = (
                f"{function} calls `{one.name}` only while it is traced: the random numbers have "
                f"been the same in all {one.calls} calls since then"
            )
            fixes: tuple[str, ...] = (
                "Draw with the framework instead: `tf.random.normal(shape)`, or "
                "`jax.random.normal(key, shape)` with a new key in each call.",
                "Or draw the numbers outside of the function, and pass them as an argument.",
            )
        elif one.kind == "number":
            message = (
                f"{function} read `{one.name}` while it was traced, and still uses {one.before}, "
                f"although it is now {one.now}"
            )
            fixes = ()
        else:
            message = (
                f"{function} read `{one.name}` while it was traced, and still uses the old values, "
                "although the script has changed them"
            )
            fixes = (f"Pass `{one.name}` to {function} as an argument.",)
        return Found.of(
            one,
            message,
            step=0,
            count=one.calls,
            fixes=fixes or None,
            evidence={"calls": one.calls, "limit": num_calls},
        )
    return None
