from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.functions import FunctionTraced
from mothtrap.core.window import Window
from mothtrap.rules.retracing import retracing
from mothtrap.testing import RuleTests


def traced(traces: int, calls: int, step: int = 40) -> FunctionTraced:
    return FunctionTraced(
        step=step, function="step", traces=traces, calls=calls, location="train.py:9"
    )


class TestRetracing(RuleTests):
    rule = retracing

    def sick(self) -> Iterable[Window]:
        yield window(traced(8, 8), traced(32, 40), steps=50)

    def healthy(self) -> Iterable[Window]:
        yield window(steps=50)
        yield window(traced(2, 40), steps=50)
        yield window(traced(8, 400), steps=500)


def test_the_latest_numbers_count() -> None:
    [finding] = retracing().check(window(traced(8, 8), traced(32, 40), steps=50))
    assert finding.message == "`step` was traced 32 times in 40 calls"
    assert retracing().check(window(traced(8, 10), traced(9, 400), steps=500)) == []
