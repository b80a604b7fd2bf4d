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
    title="value read once",
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
        JAX: a `jax.jit` function that reads a variable of the script, instead of getting it as an
        argument, when the script changes this variable. TensorFlow: the same for a `tf.function`,
        and for the `train_step` of a Keras model that reads a number such as `self.beta`. Also a
        compiled function that draws random numbers with NumPy or `random`.

    Why it matters:
        The Python code of a compiled function runs only while it is traced. The values that it
        reads then are constants of the program: later values have no effect, and drawn numbers are
        the same in each call.

    Fires:
        Warning when the value differs after `num_calls` calls or more without another trace, or
        when random numbers were drawn during the trace.

    Stays quiet:
        For arguments, for variables of TensorFlow and Keras, for values that stay the same, and
        for numbers that the function changes itself, such as a count of its traces.

    What to do:
        - Pass the value as an argument.
        - Keras: Store the number in a `tf.Variable`, and change it with `assign`.

    Example:
        self.beta = 0.0                       # a callback sets it: without effect in `train_step`
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
                f"{function} calls `{one.name}` only while it is traced: the random numbers are "
                f"the same in all {one.calls} calls since"
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
                f"{function} read `{one.name}` while it was traced, and still uses the values of "
                "then, although the script has changed them"
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
