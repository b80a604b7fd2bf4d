"""Rules of a run as JUnit XML: one test case per rule, which fails if the rule found an error."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET

from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.report.document import Document

MAX_TEXT = 4_000


def page(document: Document) -> str:
    """Return the rules of a run as a JUnit test suite.

    Errors and warnings are failures; a rule that failed is an error; a rule that lacked data or
    does not apply is skipped with its reason.
    """
    summary = document.summary
    found: dict[str, list[Finding]] = {}
    for finding in summary.findings:
        if finding.severity is not Severity.INFO:
            found.setdefault(finding.code, []).append(finding)
    suite = ET.Element("testsuite", name=_safe(f"mothtrap {summary.run.id}"))
    names = {rule.code: rule.name for rule in summary.rules}
    names |= {f.code: f.name for f in summary.findings}
    states = {rule.code: rule for rule in summary.rules}
    failures = errors = skipped = 0
    for code, name in sorted(names.items()):
        case = ET.SubElement(suite, "testcase", classname="mothtrap", name=_safe(f"{code} {name}"))
        status = states.get(code)
        if code in found:
            failures += 1
            first = found[code][0]
            failure = ET.SubElement(
                case, "failure", type=first.severity.value, message=_safe(first.message)
            )
            failure.text = _safe("\n".join(_described(finding) for finding in found[code]))
        elif status is not None and status.state is RuleState.RULE_FAILED:
            errors += 1
            ET.SubElement(case, "error", type="rule failed", message=_safe(status.reason))
        elif status is not None and status.state in (
            RuleState.NOT_ENOUGH_DATA,
            RuleState.NOT_APPLICABLE,
        ):
            skipped += 1
            reason = f"{status.state.replace('_', ' ')}: {status.reason}"
            ET.SubElement(case, "skipped", message=_safe(reason))
    for damage in summary.damage:
        case = ET.SubElement(suite, "testcase", classname="mothtrap", name="damaged data")
        ET.SubElement(case, "error", type="damaged data", message=_safe(damage))
    errors += len(summary.damage)
    counts = {
        "tests": len(names) + len(summary.damage),
        "failures": failures,
        "errors": errors,
        "skipped": skipped,
    }
    for key, count in counts.items():
        suite.set(key, str(count))
    suite.set("timestamp", time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(document.made_s)))
    text: str = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _described(finding: Finding) -> str:
    lines = [
        f"{finding.severity.value}: {finding.message}",
        *([f"step {finding.step}"] * finding.has_step),
    ]
    lines += [f"in {', '.join(finding.layers[:8])}"] if finding.layers else []
    lines += [f"at {finding.location}"] if finding.location else []
    lines += [f"Fix: {fix}" for fix in finding.fixes[:2]]
    return "\n".join(lines)


def _safe(text: str) -> str:
    """Remove characters from a text that XML does not allow."""
    kept = (c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text[:MAX_TEXT])
    return "".join(kept)
