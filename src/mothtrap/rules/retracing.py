"""RUN906: a function is retraced in many of its calls."""

from __future__ import annotations

from mothtrap.core.facts.functions import FunctionTraced, ModelCompiled
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "RUN906",
    severity="error",
    needs=[Need(facts=(FunctionTraced, ModelCompiled))],
    explains=("memory_growth",),
)
def retracing(
    window: Window,
    *,
    traces: int = threshold(8, unit="traces", source="chosen by hand"),
    share: float = threshold(0.1, unit="of the calls", source="chosen by hand"),
) -> Found | None:
    """A compiled training function is traced again and again.

    What it detects:
        A `tf.function` or a function under `jax.jit` that is retraced in a large share of its
        calls, because its arguments have new Python values, shapes or types.

    Why it matters:
        Tracing takes a hundred times as long as a step, and each trace stays in memory.

    Fires:
        Error when a function was traced at least `traces` times, and in more than `share` of its
        calls.

    Stays quiet:
        A few shapes, such as a shorter last batch or buckets of lengths.

    What to do:
        - Keras: Pass changing numbers as tensors: `step(x, tf.constant(number))`.
        - JAX: Pass numbers that change as arrays: remove them from `static_argnums` and
          `static_argnames`.
        - Give batches one shape: pad them, or leave out the last short batch.
        - Keras: Pass `reduce_retracing=True` or an `input_signature` to the function.
        - Create the compiled function once, outside the loop.

    Example:
        for number in range(1000):
            step(x, y, number)                    # a new trace for each number
        for number in tf.range(1000):
            step(x, y, number)

    References:
        https://www.tensorflow.org/guide/function#controlling_retracing
    """
    for one in window.latest(FunctionTraced, by=("function", "location")):
        if one.traces >= traces and one.traces > share * max(1, one.calls):
            return Found.of(
                one,
                f"`{one.function}` was traced {one.traces} times in {one.calls} calls",
                step=max(0, one.step - one.calls + 1),
                count=one.traces,
                evidence={"traces": one.traces, "calls": one.calls, "limit": share},
            )
    return None
