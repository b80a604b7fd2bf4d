"""Findings as annotations of GitHub Actions, and the summary of a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mothtrap.core.findings import Finding, Severity
from mothtrap.report.document import Document
from mothtrap.report.markdown import page as markdown

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
MOST = 10
"""Annotations of a kind that GitHub shows of one step."""
VARIABLE = "GITHUB_STEP_SUMMARY"


def page(document: Document) -> str:
    """Return GitHub workflow commands, at most ten per level, worst first."""
    damage = document.summary.damage[:MOST]
    lines = [f"::warning title=damaged data::{_data(text)}" for text in damage]
    counts = dict.fromkeys(Severity, 0)
    for finding in document.summary.findings:
        counts[finding.severity] += 1
        if counts[finding.severity] <= MOST:
            lines.append(_annotation(finding))
    return "\n".join([*lines, ""]) if lines else ""


def write_summary(document: Document, environ: Mapping[str, str]) -> bool:
    """Append the summary to GitHub's job summary file; return whether there is one.

    Raises:
        OSError: the file cannot be written.
    """
    path = environ.get(VARIABLE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown(document))
    return bool(path)


def _annotation(finding: Finding) -> str:
    file, _, line = (finding.location or "").rpartition(":")
    fields = {"title": f"{finding.code} {finding.name}"}
    if file and line.isdigit():
        fields = {"file": file, "line": line, **fields}
    given = ",".join(f"{name}={_property(value)}" for name, value in fields.items())
    text = finding.message + (f" (since {finding.unit} {finding.step})" if finding.has_step else "")
    return f"::{LEVELS[finding.severity]} {given}::{_data(text)}"


def _data(text: str) -> str:
    plain = "".join(c if c.isprintable() or c in "\r\n" else " " for c in text)
    return plain.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
