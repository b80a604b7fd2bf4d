from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from mothtrap.core.config import Config
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.captures import Thinned
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.needs import Need
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.window import Window
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.monitor import (
    COST_RATIO,
    DENSE_EVERY,
    DENSE_STEPS,
    FIRST_STEPS,
    LONGEST_STEPS,
    URGENT_RECORDS,
    Monitor,
)
from mothtrap.statistics.summary import COLUMN, WIDTH


@dataclass
class Clock:
    """A clock that stands still until a speed is set."""

    now_s: float = 0.0
    per_call_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.per_call_s
        return self.now_s


@dataclass(frozen=True)
class Watching(Rule):
    """Records the windows that it gets."""

    code = "TST001"
    seen: list[int] = field(default_factory=list, compare=False)

    def check(self, window: Window) -> list[Finding]:
        self.seen.append(window.last_step)
        return []


@dataclass(frozen=True)
class Raising(Rule):
    """Fails at step 2."""

    code = "TST002"

    def check(self, window: Window) -> list[Finding]:
        if window.last_step == 2:
            raise ZeroDivisionError("a planted fault")
        return []


@dataclass(frozen=True)
class Choosy(Rule):
    """Judges step 1 only.

    What to do:
        - Nothing.
    """

    code = "TST003"
    severity: str = ""
    reason: type[NotEnoughData | NotApplicable] = NotEnoughData

    def check(self, window: Window) -> list[Finding]:
        if window.last_step != 1:
            raise self.reason(f"step {window.last_step} is not step 1")
        if not self.severity:
            return []
        severity = Severity(self.severity)
        return [self.finding(window, severity=severity, step=1, message="step 1 is odd")]


def record(step: int, loss: float = 1.0, *, nan: int = 0, **more: object) -> StepRecord:
    row = np.full((1, WIDTH), np.nan)
    row[0, [COLUMN["nan"], COLUMN["inf"]]] = nan, 0
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=float(step),
        tensor_T=np.array([0], np.uint32),
        summary_TF=row,
        scalars=(Scalar("loss", "train.py:1", loss),),
        **more,
    )


def test_judges_the_first_steps_and_then_every_fourth() -> None:
    rule, clock = Watching(), Clock(per_call_s=1.0)
    monitor = Monitor([rule], clock=clock)
    for step in range(DENSE_STEPS + 5):
        monitor.feed(record(step))
    sparser = range(FIRST_STEPS + DENSE_EVERY - 1, DENSE_STEPS, DENSE_EVERY)
    assert rule.seen == [*range(FIRST_STEPS), *sparser]


def test_fast_steps_of_an_analysis_are_judged_without_regard_to_time() -> None:
    rule = Watching()
    monitor = Monitor([rule], clock=Clock(), every=100)
    for step in range(FIRST_STEPS):
        monitor.feed(record(step))
    assert rule.seen == [*range(FIRST_STEPS)]


def test_later_records_of_an_analysis_are_judged_at_multiples_of_a_number() -> None:
    rule = Watching()
    monitor = Monitor([rule], clock=Clock(), every=50)
    for step in range(DENSE_STEPS + 120):
        monitor.feed(record(step))
    later = [step for step in rule.seen if step > DENSE_STEPS]
    assert later == [step for step in range(DENSE_STEPS + 1, DENSE_STEPS + 120) if step % 50 == 49]


def test_judges_every_evaluation_among_the_first_steps() -> None:
    rule, clock = Watching(), Clock(per_call_s=1.0)
    monitor = Monitor([rule], clock=clock)
    for step in range(FIRST_STEPS + 1):
        monitor.feed(record(step))
    judged = len(rule.seen)
    monitor.feed(replace(record(FIRST_STEPS), key=StepKey(step=FIRST_STEPS, mode=Mode.EVAL)))
    assert len(rule.seen) == judged + 1


@dataclass(frozen=True)
class Slow(Watching):
    """Takes a second to evaluate."""

    clock: Clock = field(default_factory=Clock)

    def check(self, window: Window) -> list[Finding]:
        self.clock.now_s += 1.0
        return super().check(window)


@dataclass(frozen=True)
class Waiting(Watching):
    """Takes no time, and is also evaluated while no record arrives."""

    code = "TST004"
    waits = True


def test_fast_steps_are_judged_when_they_are_a_quarter_of_all() -> None:
    clock = Clock()
    rule = Slow(clock=clock)
    monitor = Monitor([rule], clock=clock)
    for step in range(DENSE_STEPS):
        monitor.feed(record(step))
        monitor.feed(replace(record(step), key=StepKey(step=step, mode=Mode.EVAL)))
    assert rule.seen == [0, 1, 2, 3, 5, 7, 10, 14, 19, 26, 35, 47, 63]
    assert all(later <= 4 / 3 * (step + 1) for step, later in pairwise(rule.seen))


def test_then_judging_takes_its_share_of_the_time_but_is_not_left_out_for_long() -> None:
    clock = Clock()
    rule = Slow(clock=clock)
    monitor = Monitor([rule], clock=clock)
    for step in range(DENSE_STEPS):
        monitor.feed(record(step))
    for step_s, most in ((2.0, 1.1 * COST_RATIO * 2000), (1e-3, 1000 / LONGEST_STEPS)):
        judged = len(rule.seen)
        for step in range(1000):
            clock.now_s += step_s
            monitor.feed(record(DENSE_STEPS + step))
        assert 0 < len(rule.seen) - judged <= most


def test_a_look_while_no_record_comes_does_not_bring_the_next_judgment_forward() -> None:
    clock = Clock()
    rule, waiting = Slow(clock=clock), Waiting()
    monitor = Monitor([rule, waiting], clock=clock)
    for step in range(DENSE_STEPS + 100):
        monitor.feed(record(step))
        monitor.idle(step + 0.5)
    assert rule.seen[-1] == DENSE_STEPS - 1
    assert len(waiting.seen) > len(rule.seen)


@pytest.mark.parametrize(
    "faulty",
    [
        {"loss": math.nan},
        {"nan": 3},
        {"observations": (NonfiniteModule(step=0, module="m", module_type="M", nan=1, inf=0),)},
    ],
)
def test_judges_at_once_what_is_not_finite_but_not_forever(faulty: dict[str, object]) -> None:
    rule = Watching()
    monitor = Monitor([rule], clock=Clock(per_call_s=1.0))
    for step in range(DENSE_STEPS):
        monitor.feed(record(step))
    monitor._due_s = math.inf
    monitor.feed(record(DENSE_STEPS))
    judged = len(rule.seen)
    assert rule.seen[-1] == DENSE_STEPS - 1
    for step in range(DENSE_STEPS + 1, DENSE_STEPS + 100):
        monitor._due_s = math.inf
        monitor.feed(record(step, **faulty))
    assert len(rule.seen) == judged + URGENT_RECORDS


def test_a_rule_that_raises_is_switched_off_and_told_once() -> None:
    watching = Watching()
    monitor = Monitor([Raising(), watching], clock=Clock())
    for step in range(5):
        monitor.feed(record(step))
    [failure] = monitor.failures
    assert failure.step == 2
    assert "TST002" in failure.part
    assert "a planted fault" in failure.error
    assert "ZeroDivisionError" in failure.traceback
    failed, ok = sorted(monitor.statuses(), key=lambda status: status.state != "rule_failed")
    assert (failed.state, failed.code) == (RuleState.RULE_FAILED, "TST002")
    assert "a planted fault" in failed.reason
    assert ok.state is RuleState.OK
    assert watching.seen == [0, 1, 2, 3, 4]


def test_a_rule_that_judged_once_stays_judged() -> None:
    monitor = Monitor([Choosy()], clock=Clock())
    states = []
    for step in range(3):
        monitor.feed(record(step))
        states.append(monitor.statuses()[0].state)
    assert states == [RuleState.NOT_ENOUGH_DATA, RuleState.OK, RuleState.OK]


def test_the_reason_why_a_rule_cannot_judge_is_told() -> None:
    monitor = Monitor([Choosy()], clock=Clock())
    assert monitor.statuses()[0].reason == "no step was evaluated"
    monitor.feed(record(0))
    assert monitor.statuses()[0].reason == "step 0 is not step 1"


@pytest.mark.parametrize("reason", [NotEnoughData, NotApplicable])
@pytest.mark.parametrize(
    ("kinds", "statistics", "mode", "told"),
    [
        (("activation", "input"), ("inactive", "mean"), Mode.TRAIN, True),
        (("weight",), ("inactive",), Mode.TRAIN, False),
        (("activation",), ("mean",), Mode.TRAIN, False),
        (("activation",), ("inactive",), Mode.EVAL, False),
    ],
)
def test_what_was_thinned_is_not_taken_for_what_is_not_there(
    reason: type[NotEnoughData | NotApplicable],
    kinds: tuple[str, ...],
    statistics: tuple[str, ...],
    mode: Mode,
    told: bool,
) -> None:
    rule = Choosy(reason=reason)
    object.__setattr__(rule, "needs", (Need(kinds=("activation",), statistics=("inactive",)),))
    thinned = Thinned(
        step=0,
        mode=mode,
        last_step=0,
        what="a collection",
        kinds=kinds,
        statistics=statistics,
        count=1,
        due=1,
    )
    monitor = Monitor([rule], clock=Clock())
    monitor.feed(record(0, observations=(thinned,)))
    (status,) = monitor.statuses()
    assert ("to stay within the budget" in status.reason) is told
    plain = reason is NotApplicable and not told
    assert status.state is (RuleState.NOT_APPLICABLE if plain else RuleState.NOT_ENOUGH_DATA)
    assert status.reason.startswith("step 0 is not step 1")


@pytest.mark.parametrize("reason", [NotEnoughData, NotApplicable])
def test_a_rule_that_does_not_apply_is_not_told_as_thinned(reason) -> None:
    rule = Choosy(reason=reason)
    object.__setattr__(rule, "needs", (Need(kinds=("activation",), statistics=("inactive",)),))
    thinned = Thinned(
        step=5,
        mode=Mode.TRAIN,
        last_step=5,
        what="a collection",
        kinds=("activation",),
        statistics=("inactive",),
        count=1,
        due=6,
    )
    monitor = Monitor([rule], clock=Clock())
    monitor.feed(record(0, observations=(thinned,)))
    (status,) = monitor.statuses()
    applies = reason is NotEnoughData
    assert (status.state is RuleState.NOT_APPLICABLE) is not applies
    assert ("to stay within the budget" in status.reason) is applies


def test_a_rule_that_turns_out_not_to_apply_says_so() -> None:
    monitor = Monitor([Choosy(reason=NotApplicable)], clock=Clock())
    for step in range(3):
        monitor.feed(record(step))
    assert monitor.statuses()[0].state is RuleState.NOT_APPLICABLE


@pytest.mark.parametrize(("severity", "state"), [("error", "error"), ("warning", "warning")])
def test_the_state_of_a_rule_is_that_of_its_worst_finding(severity: str, state: str) -> None:
    monitor = Monitor([Choosy(severity=severity)], clock=Clock())
    told = [monitor.feed(record(step)) for step in range(3)]
    assert [len(findings) for findings in told] == [0, 1, 0]
    assert monitor.statuses()[0].state == state


def test_finish_judges_what_is_left_and_tells_how_it_ended() -> None:
    monitor = Monitor(load_rules(Config(select=("NUM001",))), clock=Clock())
    opened = monitor.feed(record(0, math.nan))
    monitor.feed(record(1, math.nan))
    assert [f.count for f in opened] == [1]
    assert [(f.count, f.last_step) for f in monitor.finish()] == [(2, 1)]
    assert monitor.finish() == []


def test_evaluation_records_do_not_use_up_the_dense_steps() -> None:
    rule = Watching()
    monitor = Monitor([rule], clock=Clock(per_call_s=1.0))
    monitor.feed(record(0))
    for place in range(3 * DENSE_STEPS):
        evaluation = record(1)
        key = StepKey(step=1, mode=Mode.EVAL, mode_step=place)
        monitor.feed(
            StepRecord(
                key=key,
                wall_s=0.0,
                tensor_T=evaluation.tensor_T[:0],
                summary_TF=evaluation.summary_TF[:0],
                scalars=evaluation.scalars,
            )
        )
    before = len(rule.seen)
    monitor.feed(record(1))
    assert len(rule.seen) == before + 1


def runaway(steps: int) -> list[StepRecord]:
    series = LossSeries(step=0, series="train.py:1", location="train.py:1", optimizers=("SGD",))
    losses = [1.0, *[2.0**n for n in range(steps - 1)]]
    return [record(n, v, observations=(series,) * (n == 0)) for n, v in enumerate(losses)]


def test_the_same_records_give_the_same_findings_at_any_speed() -> None:
    results = []
    for per_call_s in (0.0, 1e6):
        monitor = Monitor(load_rules(Config()), clock=Clock(per_call_s=per_call_s))
        for each in runaway(200):
            monitor.feed(each)
        monitor.finish()
        results.append([(f.code, f.step, f.severity, f.count) for f in monitor.findings])
    assert results[0] == results[1]
    assert results[0][0][0] == "LOS402"


def test_scripts_that_make_numpy_raise_do_not_break_rules() -> None:
    monitor = Monitor(load_rules(Config()), clock=Clock())
    with np.errstate(all="raise"):
        for each in runaway(300):
            monitor.feed(each)
        for step in range(300, 310):
            monitor.feed(record(step, math.inf, nan=1))
    assert monitor.failures == ()
