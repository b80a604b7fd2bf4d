"""Results of checks as they are printed."""

from __future__ import annotations

from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.findings import Finding, Severity
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
        "  - PRE103 initial_loss, PRE107 target_ignored: no loss was seen"
    )
    assert printed(*undecided)[1].endswith("0 found a fault, 2 do not apply, 0 could not decide")


def test_a_check_without_time_comes_before_those_that_do_not_apply() -> None:
    late = CheckResult(step=9, code="PRE104", state="not_enough_data", reason="no time was left")
    other = CheckResult(step=9, code="PRE102", state="not_applicable", reason="no sequences")
    assert printed(other, late)[0] == "  ? PRE104 cannot_overfit: no time was left"


def test_a_note_is_no_fault() -> None:
    results = [
        CheckResult(
            step=9,
            code=code,
            found=(
                Finding(
                    code=code,
                    name=code.lower(),
                    severity=severity,
                    step=0,
                    detected_step=0,
                    message="",
                    fingerprint=code,
                ),
            ),
        )
        for code, severity in (("PRE201", Severity.INFO), ("PRE104", Severity.ERROR))
    ]
    assert printed(*results)[-1] == (
        "  2 checks in 0 s: 0 passed, 1 found a fault, 1 made a note, 0 could not decide"
    )
