"""Whatever a user's rule does, only that rule fails."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from tests.monitor.test_monitor import record
from tests.rules.windows import loss, series
from tests.rules.windows import window as windows

import mothtrap
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.window import Window
from mothtrap.monitor import own_checks
from mothtrap.monitor.monitor import Monitor
from mothtrap.monitor.own_checks import RuleFailure, failure_of, found_by, missing_steps
from mothtrap.monitor.rule_faults import one_line
from mothtrap.reader.series.windows import WindowBuilder
from mothtrap.testing.windows import statistic

SEEN = windows(loss([1.0, 2.0, 3.0]))
SEEN.steps_S.setflags(write=False)


def rule_that(act: Any) -> mothtrap.Rule:
    """Return a rule whose `check` is a function of the window."""

    @mothtrap.rule("ZZZ901")
    def odd(window):
        return act(window)

    return odd()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


def recursive(window: Window) -> Any:
    return recursive(window)


def raised(error: BaseException) -> Any:
    def act(_: Window) -> Any:
        raise error

    return act


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (raised(SystemExit(3)), "SystemExit: 3; a rule must not end the process"),
        (raised(KeyboardInterrupt()), "KeyboardInterrupt; correct line"),
        (raised(GeneratorExit()), "GeneratorExit"),
        (raised(Unspeakable()), "Unspeakable; correct line"),
        (recursive, "RecursionError: .*; it calls itself endlessly"),
        (lambda w: w.matrix("weight", "l2").steps_S, r"window\.matrix\(\.\.\.\) is None where"),
        (lambda w: w.scalars("nothing")[0], r"window\.scalars\(\.\.\.\) is empty where"),
        (lambda w: w.steps_S.__setitem__(0, 5), "a window cannot be changed: work on a copy"),
        (lambda w: setattr(w, "series", ()), "FrozenInstanceError.*rules have no state"),
        (lambda w: "odd", r"rule odd returned 'odd'; .*; change the value that it returns there"),
    ],
)
def test_a_failure_is_one_sentence_with_the_place_and_what_to_change(act: Any, said: str) -> None:
    rule = rule_that(act)
    with pytest.raises(RuleFailure) as failure:
        found_by(rule, SEEN)
    assert failure.value.__cause__ is not None
    text = failure_of(rule, failure.value.__cause__)
    assert text.startswith(f"{__file__}:")
    assert "\n" not in text
    assert "`mothtrap analyze RUN --rules test_own_checks.py` tries it on this run" in text
    assert re.search(said, text), text


def test_a_rule_without_an_end_is_left_and_its_loop_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_checks, "LOOKS", 2)
    monkeypatch.setattr(own_checks, "LOOK_S", 0.01)
    threads: list[threading.Thread] = []

    def loops(_: Window) -> None:
        threads.append(threading.current_thread())
        while True:
            pass

    rule = rule_that(loops)
    with pytest.raises(RuleFailure) as failure:
        found_by(rule, SEEN)
    assert "end its loops" in failure_of(rule, failure.value.__cause__ or failure.value)
    threads[0].join(60)
    assert not threads[0].is_alive()


def test_reasons_not_to_judge_are_no_failures() -> None:
    with pytest.raises(NotEnoughData, match="too short"):
        found_by(rule_that(raised(NotEnoughData("too short"))), SEEN)


def test_a_window_is_the_rules_own() -> None:
    def vandal(window: Window) -> None:
        object.__setattr__(window.series[0], "name", "stolen")
        object.__setattr__(window, "matrices", (1, 2))
        window.once(lambda _: 3)

    assert found_by(rule_that(vandal), SEEN) == []
    assert (SEEN.series[0].name, SEEN.matrices) == ("loss", ())


def test_the_arrays_of_a_window_stay_as_they_are() -> None:
    builder = WindowBuilder(())
    for step in range(4):
        builder.feed(record(step))
    window = builder.window(0.0)
    for array in (window.steps_S, window.skipped_S, window.scalars("loss")[0].values_S):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_the_other_rules_go_on_whatever_the_order() -> None:
    codes = {}
    for number, act in enumerate((raised(SystemExit()), lambda _: 3, lambda _: None)):
        rule = rule_that(act)
        type(rule).code = f"ZZZ90{number}"
        codes[type(rule).code] = rule
    monitor = Monitor(list(codes.values()), every=1)
    for step in range(4):
        monitor.feed(record(step))
    monitor.finish()
    states = [status.state for status in monitor.statuses()]
    assert states == [RuleState.RULE_FAILED, RuleState.RULE_FAILED, RuleState.OK]
    assert len(monitor.failures) == 2


# Steps that a rule needed and did not see


def weights(*steps: int) -> Any:
    made = statistic("weight", "l2", {"head": [1.0] * len(steps)})
    object.__setattr__(made, "steps_S", np.array(steps))
    return made


NEED = mothtrap.Need(kinds=("weight",), statistics=("l2",), every=2)


def test_missing_steps_are_those_that_were_due() -> None:
    whole = windows(weights(0, 2, 4, 6, 8), steps=10)
    assert missing_steps((NEED,), whole) == ""
    thinned = windows(weights(0, 6, 8), steps=10)
    assert missing_steps((NEED,), thinned) == "steps 2, 4"
    assert missing_steps((mothtrap.Need(scalars=("loss",)),), thinned) == ""


def test_steps_that_were_not_watched_are_missing() -> None:
    gaps = windows(series("loss", [1.0] * 5), steps=10)
    object.__setattr__(gaps, "steps_S", np.array([0, 1, 5, 6, 9]))
    needs = (mothtrap.Need(scalars=("loss",)),)
    assert missing_steps(needs, gaps) == "steps 2 to 4, 7 to 8"


def test_a_finding_says_which_steps_its_rule_did_not_see() -> None:
    @mothtrap.rule("ZZZ901", needs=[NEED])
    def heavy(window):
        return mothtrap.Found(step=0, message="heavy")

    [finding] = found_by(heavy(), windows(weights(0, 6, 8), steps=10))
    assert isinstance(finding, Finding)
    assert finding.message == "heavy; the rule did not see steps 2, 4"


def test_a_text_that_cannot_be_made_is_left_out() -> None:
    assert one_line(Unspeakable()) == "Unspeakable"
