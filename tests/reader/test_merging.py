"""Findings of several monitors in one list."""

from __future__ import annotations

from mothtrap.core.findings import Finding, Severity
from mothtrap.reader.merging import merge_findings


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
