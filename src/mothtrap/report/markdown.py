"""A run as Markdown: for a merge request, an issue, or the summary of a CI job."""

from __future__ import annotations

import re

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.runs import RunKind
from mothtrap.report.document import Document
from mothtrap.report.style import SEVERITY_GLYPHS, count_of

MAX_DAMAGE = 20
"""Most sentences about damage; chosen by hand."""
MAX_TEXT = 500
MAX_BYTES = 900 << 10
"""Below the 1 MiB that the summary of a step of GitHub may have."""
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~@&])")


def page(document: Document) -> str:
    """Render verdict, findings and counts of a run as Markdown of at most `MAX_BYTES`."""
    summary = document.summary
    kind = "" if summary.run.kind is RunKind.TRAIN else f" ({summary.run.kind})"
    lines = [f"## mothtrap: {_safe(summary.run.id)}{kind}", "", f"**{_safe(summary.verdict)}**", ""]
    if summary.damage:
        lines += [*(f"- damaged: {_safe(text)}" for text in summary.damage[:MAX_DAMAGE]), ""]
    if summary.findings:
        lines += ["| | rule | step | where | what |", "|---|---|---:|---|---|"]
        size = sum(map(len, lines))
        for finding in summary.in_story_order():
            row = _row(finding)
            size += len(row.encode()) + 1
            if size > MAX_BYTES:
                lines.append("| | … | | | more findings: `mothtrap show` |")
                break
            lines.append(row)
        lines.append("")
    for story, root, _ in document.stories[:3]:
        if story.severity is not Severity.INFO and root.fixes:
            lines.append(f"- {_safe(root.code)}: {_prose(root.fixes[0])}")
    if summary.replay is not None:
        lines += ["", "Result of the replay:", ""]
        lines += [f"    {_plain(line)}" for line in summary.replay.told()]
    called = summary.called or summary.run.id
    nouns = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    counts = ", ".join(count_of(summary.count(s), noun) for s, noun in nouns.items())
    made = count_of(summary.run.steps, summary.run.unit)
    lines += ["", f"{made}; {counts}. `mothtrap show {_code(called)}`", ""]
    return "\n".join(lines)


def _row(finding: Finding) -> str:
    where = finding.location or (finding.layers[0] if finding.layers else "")
    cells = (
        SEVERITY_GLYPHS[finding.severity],
        f"{finding.code} {finding.name}",
        f"{finding.step:,}" if finding.has_step else "",
        where,
        finding.message,
    )
    return "| " + " | ".join(_safe(cell) for cell in cells) + " |"


def _safe(text: str) -> str:
    """Convert a text of the run to one line without markup."""
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return _MARKUP.sub(r"\\\1", _plain(cut)).replace("\\<", "&lt;").replace("\\>", "&gt;")


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:MAX_TEXT])


def _prose(text: str) -> str:
    """Return advice in one line; text between backticks is code."""
    parts = text[:MAX_TEXT].split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return _safe(text)
    return "".join(f"`{_code(p)}`" if n % 2 else _safe(p) for n, p in enumerate(parts))


def _code(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and c != "`")
