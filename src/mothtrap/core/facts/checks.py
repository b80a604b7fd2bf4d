"""Facts about checks that are made before a training run."""

from __future__ import annotations

from typing import Literal

from mothtrap.core.fact import Fact
from mothtrap.core.findings import Finding

State = Literal["done", "not_enough_data", "not_applicable", "failed"]


class CheckResult(Fact, frozen=True, kw_only=True, tag=True):
    """Result of one check.

    Attributes:
        code: of the check.
        state: `done` where the check could decide; the others say in `reason` why it could not.
        reason: one sentence; empty if `done`.
        passed: what the check proved, in a few words ("rows are independent"); empty where
            something was found.
        found: the faults.
        figures: numbers by name that are shown with the result.
        seconds: duration of the check.
    """

    code: str
    state: State = "done"
    reason: str = ""
    passed: str = ""
    found: tuple[Finding, ...] = ()
    figures: dict[str, float] = {}
    seconds: float = 0.0
