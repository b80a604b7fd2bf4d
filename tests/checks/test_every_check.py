"""Every check on an unchanged script with mixed precision, accumulation, and loader workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.checks.test_command import REAL, checked
from tests.harness.running import show

from mothtrap.checks.catalogue import checks
from mothtrap.checks.parts import ALONE

DONE = {
    *("PRE101", "PRE103", "PRE104", "PRE105", "PRE106", "PRE107", "PRE108", "PRE109", "PRE110"),
    *("PRE201", "PRE202", "PRE205", "PRE206", "PRE207", "STR707"),
    *("PRE301", "PRE302", "PRE304", "PRE305", "PRE306", "PRE307", "PRE308", "PRE309", "PRE310"),
    *("PRE311", "PRE401", "PRE403", "PRE501", "PRE502"),
}
"""Checks that can decide on the program."""
CANNOT = {
    "PRE102": "the targets are not the inputs of the next step",
    "PRE312": "images",
    "PRE402": "linear",
    "PRE203": "checkpoint",
}
"""Checks that cannot, and a word of the reason that they give."""

BENCH = Path(__file__).parents[2] / "bench" / "checking" / "expected.json"
ELSEWHERE = {
    "inputs_changed": "contract.py, with and without --unit",
    "architecture_changed": "contract.py, with and without --width",
    "part_fails": "parts.py, with and without --fault",
    "memory_nearly_full": "wide.py; a program with the fault would fill the memory of the machine",
    "person_to_beat": "no fault",
}
"""Programs in `programs/` for checks that need an option of the command."""


def test_every_check_has_a_program_with_its_fault_and_one_without() -> None:
    named = {name for names in json.loads(BENCH.read_text("utf-8")).values() for name in names}
    known = {check.__module__.rpartition(".")[2] for check in checks()}
    assert known <= named | set(ELSEWHERE)
    assert not set(ELSEWHERE) & named


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of a check with all options."""
    folder = tmp_path_factory.mktemp("every")
    program = Path(__file__).parent / "programs" / "mixed.py"
    options = ("--budget", "240", "--human", "3", "--save-invariants", "invariants.toml")
    resumes = ("--resume-command", f"python {program} --resume")
    outcome = checked(folder, "mixed.py", options=(*options, *resumes), python=REAL)
    assert outcome.returncode == 0, outcome.stderr
    return show(folder / "runs" / "seen", cwd=folder)


@pytest.mark.full
def test_every_check_decides_or_says_why_not(record: dict[str, Any]) -> None:
    states = {rule["code"]: rule for rule in record["rules"]}
    codes = {check.code for check in checks()} - {ALONE}
    assert codes == DONE | set(CANNOT)
    undecided = {code: states[code]["reason"] for code in DONE if states[code]["state"] != "ok"}
    assert undecided == {}
    for code, word in CANNOT.items():
        assert states[code]["state"] in ("not_enough_data", "not_applicable")
        assert word in states[code]["reason"]


@pytest.mark.full
def test_the_script_has_no_fault(record: dict[str, Any]) -> None:
    assert [one for one in record["findings"] if one["severity"] != "info"] == []
