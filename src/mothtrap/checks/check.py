"""Base of all checks. A check is a rule that runs an experiment and evaluates its result."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterable
from typing import ClassVar

import msgspec
import numpy as np

from mothtrap.checks.subject import Source, Subject
from mothtrap.core.checked_findings import findings_of
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.facts.checks import CheckResult, State
from mothtrap.core.findings import Finding
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


class Check(Rule):
    """Base of all checks; a subclass is a frozen dataclass whose fields are thresholds.

    Like a rule, a check is documented by its docstring and named after its file. `run` runs the
    experiment. The result is a fact of the run, and `check` turns this fact into findings, so a
    check appears wherever a rule does.

    Attributes:
        uses: Sources without which the check cannot run.
        passed: Short description of the proof if nothing is found.
        costs: Order of checks: checks that take less time come first.
    """

    uses: ClassVar[tuple[Source, ...]] = ()
    passed: ClassVar[str] = ""
    costs: ClassVar[int] = 1
    needs = (Need(facts=(CheckResult,), optional=True),)

    @abc.abstractmethod
    def run(self, subject: Subject) -> Iterable[Found]:
        """Run the experiment.

        Yields:
            Faults; empty if the check could decide and found none.

        Raises:
            NotEnoughData: The check applies, but there is too little data or time.
            NotApplicable: The check does not apply to this script.
        """

    def check(self, window: Window) -> list[Finding]:
        """Return the findings of the result in the window."""
        result = next((one for one in window.seen(CheckResult) if one.code == self.code), None)
        if result is None:
            raise NotApplicable("only `mothtrap check` runs this test")
        if result.state == "not_applicable":
            raise NotApplicable(result.reason)
        if result.state != "done":
            raise NotEnoughData(result.reason)
        return [self._shown_in(window, found) for found in result.found]

    def _shown_in(self, window: Window, found: Finding) -> Finding:
        """Return a finding of the result, with fixes for the framework that trains."""
        return msgspec.structs.replace(
            found,
            detected_step=max(window.last_step, found.step),
            workers=(window.worker,),
            fixes=found.fixes or self.fixes(window),
        )


def result_of(check: Check, subject: Subject, step: int) -> CheckResult:
    """Run a check and return its result; an error in the check is a result, too.

    Args:
        check: The check.
        subject: The script under test.
        step: The step at which the script is paused.
    """
    began = time.monotonic()
    lacking = [subject.missing[source] for source in check.uses if source in subject.missing]
    state: State = "done"
    reason, found = "", tuple[Finding, ...]()
    try:
        if lacking:
            raise NotApplicable(lacking[0])
        found = tuple(findings_of(check, _at(step), check.run(subject)))
    except CannotJudge as err:
        state = "not_applicable" if isinstance(err, NotApplicable) else "not_enough_data"
        reason = str(err)
    except Exception as err:
        state, reason = "failed", f"the check failed: {in_one_line(err)}"
    return CheckResult(
        step=step,
        code=check.code,
        state=state,
        reason=reason,
        passed=check.passed if state == "done" and not found else "",
        found=found,
        figures=dict(subject.figures),
        layers=tuple(subject.layers),
        learned=tuple(subject.learned),
        asked=tuple(subject.asked),
        seconds=time.monotonic() - began,
    )


def _at(step: int) -> Window:
    """Return an empty window that ends at a step."""
    steps_S = np.array([step], dtype=np.int64)
    return Window(
        now_s=0.0, total_steps=step + 1, steps_S=steps_S, skipped_S=np.zeros(1, dtype=np.bool_)
    )
