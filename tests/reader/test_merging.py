"""Findings of several monitors in one list."""

from __future__ import annotations

from mothtrap.core.findings import Finding, Severity, has_passed
from mothtrap.reader.merging import join_attempts, merge_findings


def finding(code: str, severity: Severity, step: int) -> Finding:
    return Finding(
        code=code,
        name=code.lower(),
        severity=severity,
        step=step,
        detected_step=step,
        message="",
        fingerprint=code,
    )


def test_the_most_severe_comes_first_then_the_earliest() -> None:
    late = finding("GRD101", Severity.ERROR, 40)
    early = finding("NUM001", Severity.ERROR, 7)
    warning = finding("DAT501", Severity.WARNING, 0)
    assert merge_findings([[warning, late], [early]]) == (early, late, warning)


def test_the_latest_attempt_decides_what_is_still_true() -> None:
    gone, unknown = finding("LOS405", Severity.WARNING, 100), finding("DAT505", Severity.ERROR, 0)
    before, now = finding("NUM001", Severity.ERROR, 50), finding("NUM001", Severity.ERROR, 450)
    joined = join_attempts([gone, unknown, before], [now], {"LOS405"}, 400)
    assert [(one.code, one.severity, one.step) for one in joined] == [
        ("DAT505", Severity.ERROR, 0),
        ("NUM001", Severity.ERROR, 450),
        ("LOS405", Severity.INFO, 100),
    ]
    assert "not found again after the job resumed at 400" in joined[-1].message
    assert has_passed(joined[-1])


def test_steps_that_were_made_again_are_judged_anew() -> None:
    crash, early = finding("NUM001", Severity.ERROR, 450), finding("DAT505", Severity.ERROR, 0)
    joined = join_attempts([crash, early], [], set(), 400)
    assert [(one.code, one.severity) for one in joined] == [
        ("DAT505", Severity.ERROR),
        ("NUM001", Severity.INFO),
    ]
    assert has_passed(joined[-1])
    assert all(has_passed(one) for one in join_attempts([crash, early], [], set(), 0))
