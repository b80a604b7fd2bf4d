"""Results of checks as they are printed."""

from __future__ import annotations

from mothtrap.core.facts.checks import CheckResult
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report.checks import lines
from mothtrap.report.style import Style


def printed(*results: CheckResult) -> list[str]:
    return list(lines(results, rule_classes(), Style(glyphs=True)))


def test_a_check_that_passed_says_what_it_proved_with_its_figures() -> None:
    passed = CheckResult(step=9, code="PRE104", passed="it learns", figures={"loss": 0.12345})
    assert printed(passed) == [
        "  ✔ it learns (loss 0.1235)",
        "  1 check in 0 s: 1 passed, 0 found a fault, 0 could not decide",
    ]


def test_checks_with_one_reason_share_a_line() -> None:
    undecided = [
        CheckResult(step=9, code=code, state="not_applicable", reason="no loss was seen")
        for code in ("PRE103", "PRE107")
    ]
    assert printed(*undecided)[0] == (
        "  ? PRE103 initial_loss, PRE107 target_ignored: no loss was seen"
    )
