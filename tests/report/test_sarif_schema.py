"""SARIF as OASIS has it: every log is valid under the schema of version 2.1.0 (errata 01).

The schema is `sarif-2.1/schema/sarif-schema-2.1.0.json` of oasis-tcs/sarif-spec, unchanged.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.report.faulty_run import exploding
from tests.report.test_reports import HOSTILE, document

from mothtrap.core.findings import Finding, Severity
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report import sarif
from mothtrap.report.document import Document
from mothtrap.report.summary import OwnError

jsonschema = pytest.importorskip("jsonschema", reason="the extra dev is not installed")
SCHEMA = Path(__file__).parent / "oasis" / "sarif-schema-2.1.0.json"


def problems(log: Any) -> list[str]:
    """Return the schema's objections to a log."""
    validator = jsonschema.Draft4Validator(json.loads(SCHEMA.read_text()))
    return [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(log)]


def log_of(made: Document) -> Any:
    return json.loads(sarif.page(made, rule_classes()))


def failing(made: Document) -> Document:
    """A document of a run in which mothtrap itself failed."""
    error = OwnError(part="rules", error=HOSTILE)
    summary = msgspec.structs.replace(made.summary, tool_errors=(error,))
    return dataclasses.replace(made, summary=summary)


@pytest.mark.parametrize(
    "findings",
    [
        (),
        (exploding(),),
        (exploding(severity=Severity.INFO, fixes=()), exploding(code="NUM001", name="x_y")),
        (exploding(message=HOSTILE, layers=(HOSTILE,), location=f"{HOSTILE}.py:3"),),
        (exploding(layers=(), location=None, evidence={"x": float("nan"), "y": [1, "z"]}),),
        (exploding(step=0, location="a b/c#d?e.py:0"),),
    ],
    ids=["none", "one", "two codes", "hostile", "nowhere", "odd path"],
)
def test_every_log_is_valid(findings: tuple[Finding, ...]) -> None:
    assert problems(log_of(document(*findings))) == []


def test_a_log_of_a_run_in_which_mothtrap_failed_is_valid() -> None:
    log = log_of(failing(document(exploding())))
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert problems(log) == []


def test_every_rule_is_described_validly() -> None:
    findings = [exploding(code=rule.code, name=rule.name()) for rule in rule_classes()]
    log = log_of(document(*findings))
    assert len(log["runs"][0]["tool"]["driver"]["rules"]) == len(findings)
    assert problems(log) == []


@pytest.mark.parametrize("broken", ["level", "ruleIndex", "message"])
def test_the_schema_refuses_what_is_wrong(broken: str) -> None:
    log = log_of(document(exploding()))
    log["runs"][0]["results"][0][broken] = ["wrong"]
    assert problems(log)
