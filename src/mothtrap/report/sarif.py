"""Findings as SARIF 2.1.0, the format in which code scanners report."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from mothtrap.core import jsonable
from mothtrap.core.diagnosis import when
from mothtrap.core.documented import Documented
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.own_version import own_version
from mothtrap.core.texts import printable
from mothtrap.report.document import Document
from mothtrap.report.rulepage import rule_markdown

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
ROOT = "SRCROOT"
"""Name of the folder in which the job was started; paths are relative to it."""


def page(document: Document, rules: Sequence[type[Documented]] = ()) -> str:
    """Render the findings of a run as a SARIF log.

    Args:
        document: document of the run.
        rules: known rules; those with findings are described in the log.
    """
    findings = document.summary.findings
    codes = list(dict.fromkeys(finding.code for finding in findings))
    known = {rule.code: rule for rule in rules}
    failed = [printable(f"{e.part}: {e.error}") for e in document.summary.tool_errors]
    damage = [printable(f"damaged: {text}") for text in document.summary.damage]
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mothtrap",
                        "version": own_version(),
                        "rules": [_rule(code, known.get(code), findings) for code in codes],
                    }
                },
                "automationDetails": {"id": printable(f"mothtrap/{document.summary.run.id}")},
                "invocations": [
                    {
                        "executionSuccessful": not failed,
                        "toolExecutionNotifications": [
                            {"level": level, "message": {"text": text}}
                            for level, texts in (("error", failed), ("warning", damage))
                            for text in texts
                        ],
                    }
                ],
                "originalUriBaseIds": {
                    ROOT: {"description": {"text": "The folder in which the job was started."}}
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(f, codes.index(f.code), document) for f in findings],
            }
        ],
    }
    return jsonable.shown(log).decode() + "\n"


def _rule(code: str, rule: type[Documented] | None, findings: Sequence[Finding]) -> dict[str, Any]:
    name = next(finding.name for finding in findings if finding.code == code)
    described: dict[str, Any] = {"id": code, "name": _pascal(name)}
    if rule is not None:
        doc = rule.doc()
        described["shortDescription"] = {"text": doc.summary}
        why = doc.sections.get("Why it matters")
        if why:
            described["fullDescription"] = {"text": why}
        text = doc.sections.get("What to do", doc.summary)
        described["help"] = {"text": text, "markdown": rule_markdown(rule)}
    return described


def _result(finding: Finding, index: int, document: Document) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "partialFingerprints": {"mothtrap/v1": finding.fingerprint},
        "properties": {
            "step": finding.step,
            "lastStep": finding.last_step,
            "count": finding.count,
            "layers": [printable(layer) for layer in finding.layers],
            "workers": list(finding.workers),
            "confidence": finding.confidence,
            "causes": list(finding.causes),
            "causedBy": list(finding.caused_by),
        },
    }
    location: dict[str, Any] = {}
    physical = _physical(finding.location, document.summary.sources)
    if physical is not None:
        location["physicalLocation"] = physical
    if finding.layers:
        location["logicalLocations"] = [
            {"fullyQualifiedName": printable(layer), "kind": "member"} for layer in finding.layers
        ]
    if location:
        result["locations"] = [location]
    return result


def _message(finding: Finding) -> str:
    fix = f" Fix: {finding.fixes[0]}" if finding.fixes and not finding.caused_by else ""
    began = f" ({when(finding).strip()})" if finding.has_step else ""
    return printable(f"{finding.message}{began}{fix}")


def _physical(location: str | None, sources: Mapping[str, str]) -> dict[str, Any] | None:
    """Return `file:line` as a location; None for a file outside of the job's folder."""
    file, _, line = (location or "").rpartition(":")
    path = PurePath(file)
    if not file or not line.isdigit() or path.is_absolute() or ".." in path.parts:
        return None
    region: dict[str, Any] = {"startLine": max(1, int(line))}
    source = sources.get(location or "")
    if source:
        region["snippet"] = {"text": printable(source)}
    uri = urllib.parse.quote(path.as_posix())
    return {"artifactLocation": {"uri": uri, "uriBaseId": ROOT}, "region": region}


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
