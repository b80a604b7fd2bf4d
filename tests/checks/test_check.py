"""Results of checks, and the findings that they become."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from mothtrap.checks.check import Check, result_of
from mothtrap.checks.subject import Subject
from mothtrap.core import fact
from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.found import Found
from mothtrap.core.jsonable import encode
from mothtrap.core.window import Window


@dataclass(frozen=True)
class Example(Check):
    """An example.

    Why it matters:
        Because.

    What to do:
        - Repair it.
    """

    code = "PRE999"
    passed = "the example holds"
    uses = ("datasets",)
    raises: type[Exception] | None = None
    finds: bool = False

    def run(self, subject: Subject) -> Iterable[Found]:
        if self.raises is not None:
            raise self.raises("no rows")
        subject.figures["rows"] = 3.0
        if self.finds:
            yield Found(step=2, message="it is broken", severity="error", location="train.py:3")


def window(*facts: CheckResult) -> Window:
    steps_S = np.arange(10)
    skipped_S = np.zeros(10, dtype=bool)
    return Window(
        now_s=0.0, total_steps=10, steps_S=steps_S, skipped_S=skipped_S, observations=facts
    )


def test_a_fault_becomes_a_finding_of_the_run() -> None:
    result = result_of(Example(finds=True), Subject(), 5)
    stored = fact.decode(fact.tag_of(result), encode(result))
    assert isinstance(stored, CheckResult)
    [finding] = Example().check(window(stored))
    assert (finding.code, finding.severity, finding.step) == ("PRE999", "error", 2)
    assert finding.message == "it is broken"
    assert finding.location == "train.py:3"
    assert finding.fixes == ("Repair it.",)
    assert finding.detected_step == 9
    assert stored.passed == ""


def test_a_check_that_finds_nothing_says_what_it_proved() -> None:
    result = result_of(Example(), Subject(), 5)
    assert (result.state, result.passed, result.figures) == (
        "done",
        "the example holds",
        {"rows": 3.0},
    )
    assert Example().check(window(result)) == []


@pytest.mark.parametrize(
    ("raises", "state", "becomes"),
    [
        (NotEnoughData, "not_enough_data", NotEnoughData),
        (NotApplicable, "not_applicable", NotApplicable),
        (ZeroDivisionError, "failed", NotEnoughData),
    ],
)
def test_a_check_that_cannot_decide_says_why(
    raises: type[Exception], state: str, becomes: type[CannotJudge]
) -> None:
    result = result_of(Example(raises=raises), Subject(), 5)
    assert result.state == state
    with pytest.raises(becomes, match="no rows"):
        Example().check(window(result))


def test_a_check_without_its_source_does_not_run() -> None:
    missing = Subject(missing={"datasets": "no loader was seen"})
    result = result_of(Example(finds=True), missing, 5)
    assert (result.state, result.reason, result.found) == (
        "not_applicable",
        "no loader was seen",
        (),
    )


def test_an_ordinary_run_has_no_checks() -> None:
    with pytest.raises(NotApplicable, match="mothtrap check"):
        Example().check(window())
