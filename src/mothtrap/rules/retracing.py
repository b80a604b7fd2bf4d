"""RUN906: a function is retraced in many of its calls."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import FunctionTraced, ModelCompiled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class Retracing(Rule):
    """A compiled training function is traced again and again.

    What it detects:
        A `tf.function` that is retraced in a large share of its calls, because its arguments have
        new Python values, shapes or types.

    Why it matters:
        Tracing takes a hundred times as long as a step, and each trace stays in memory.

    Fires:
        Error when a function was traced at least `traces` times, and in more than `share` of its
        calls.

    Stays quiet:
        A few shapes, such as a shorter last batch or buckets of lengths.

    What to do:
        - Pass changing numbers as tensors: `step(x, tf.constant(number))`.
        - Give batches one shape, by padding or `drop_remainder=True`, or pass
          `reduce_retracing=True` or an `input_signature` to the function.
        - Create the `tf.function` once, outside the loop.

    Example:
        for number in range(1000):
            step(x, y, number)                    # a new trace for each number
        for number in tf.range(1000):
            step(x, y, number)

    References:
        https://www.tensorflow.org/guide/function#controlling_retracing
    """

    code = "RUN906"
    needs = (Need(facts=(FunctionTraced, ModelCompiled)),)
    explains = ("memory_growth",)

    traces: int = threshold(8, unit="traces", source="chosen by hand")
    share: float = threshold(0.1, unit="of the calls", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the latest counts of each function."""
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        newest = {(one.function, one.location): one for one in window.seen(FunctionTraced)}
        often = [
            one
            for one in newest.values()
            if one.traces >= self.traces and one.traces > self.share * max(1, one.calls)
        ]
        return [self._finding(window, one) for one in often[:1]]

    def _finding(self, window: Window, one: FunctionTraced) -> Finding:
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=max(0, one.step - one.calls + 1),
            last_step=one.step,
            count=one.traces,
            message=f"`{one.function}` was traced {one.traces} times in {one.calls} calls",
            evidence={"traces": one.traces, "calls": one.calls, "limit": self.share},
            location=one.location,
        )
