"""Some cases of the fault bench, and the counts of named faults and false alarms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import faults, runs_of_programs
from bench.runs_of_programs import Outcome, Program

# `tests/faulty` and `tests/harness` have programs like those that only `make test-full` runs.
NAMED = ("softmax_before_ce", pytest.param("nan_in_input", marks=pytest.mark.full))
SOUND = ("tied_lm", pytest.param("gan", marks=pytest.mark.full))


def finding(name: str, severity: str = "error", **more: object) -> dict:
    return {
        "name": name,
        "severity": severity,
        "step": 3,
        "detected_step": 5,
        "caused_by": [],
        "fixes": ["Stop earlier.", "Take more data."],
    } | more


def outcome(*findings: dict, healthy: bool = False, error: str = "") -> Outcome:
    program = Program(script=Path("case.py"), seed=0, healthy=healthy)
    return Outcome(program=program, record={"findings": list(findings)}, error=error)


def verdict(faulty: Outcome, twin: Outcome | None, *accepted: str, fix: str = "") -> faults.Verdict:
    return faults.Verdict(name="case", seed=0, faulty=faulty, twin=twin, accepted=accepted, fix=fix)


def test_a_root_of_an_accepted_rule_names_the_fault() -> None:
    named = verdict(outcome(finding("overfit", "warning")), outcome(healthy=True), "overfit")
    assert named.naming is not None
    assert named.seen
    assert faults.totals([named]) == (
        "named 1 of 1, seen 1 of 1, false alarms on 0 of 1 healthy runs (warnings there: 0)\n"
        "steps between onset and finding: median 2",
        True,
    )


def test_the_first_fix_must_be_the_one_for_the_case() -> None:
    named = outcome(finding("overfit", "warning")), outcome(healthy=True), "overfit"
    assert faults.totals([verdict(*named, fix="Stop earlier")])[1]
    text, met = faults.totals([verdict(*named, fix="Take more data")])
    assert not met
    assert "the first fix is right for 0 of 1" in text


def test_a_folder_need_not_say_its_fixes(tmp_path: Path) -> None:
    assert faults.first_fixes(tmp_path) == {}
    assert faults.first_fixes(faults.CASES)


@pytest.mark.parametrize("folder", ["", "more", "later"])
def test_every_fault_has_its_fix(folder: str) -> None:
    base = faults.CASES / folder
    expected = json.loads((base / "expected.json").read_text(encoding="utf-8"))
    fixes = json.loads((base / "fixes.json").read_text(encoding="utf-8"))
    assert set(fixes) == {case for case, names in expected.items() if names}
    assert all(fixes.values())


@pytest.mark.parametrize(
    "found",
    [
        finding("overfit", "info"),
        finding("overfit", caused_by=["LOS402"]),
        finding("loss_diverging"),
    ],
    ids=["a note", "an effect", "another rule"],
)
def test_what_is_no_root_or_no_warning_or_another_rule_names_nothing(found: dict) -> None:
    missed = verdict(outcome(found), outcome(healthy=True), "overfit")
    assert missed.naming is None
    assert missed.seen is (found["severity"] != "info")
    assert faults.totals([missed])[1] is False


def test_an_error_on_a_twin_or_a_healthy_program_is_a_false_alarm() -> None:
    faulty, alarm = outcome(finding("overfit")), finding("wrong_sign")
    on_twin = verdict(faulty, outcome(alarm, healthy=True), "overfit")
    on_healthy = verdict(outcome(alarm), None)
    warned = verdict(outcome(finding("wrong_sign", "warning")), None)
    assert (len(on_twin.alarms), len(on_healthy.alarms), len(warned.alarms)) == (1, 1, 0)
    assert faults.totals([on_twin])[1] is False
    text, met = faults.totals([warned])
    assert met
    assert "warnings there: 1" in text


def test_a_program_that_failed_meets_no_target() -> None:
    broken = verdict(outcome(error="exit code 1"), outcome(healthy=True), "overfit")
    text, met = faults.totals([broken])
    assert not met
    assert "could not be judged: case seed 0: exit code 1" in text
    assert faults.healthy_totals([outcome(error="exit code 1")])[1] is False


def test_healthy_programs_may_have_seven_warnings_in_seventy_five_runs() -> None:
    quiet, warned = outcome(), outcome(finding("overfit", "warning"))
    assert faults.healthy_totals([warned] * 7 + [quiet] * 68)[1] is True
    assert faults.healthy_totals([warned] * 8 + [quiet] * 67)[1] is False
    assert faults.healthy_totals([outcome(finding("overfit"))] + [quiet] * 74)[1] is False


@pytest.mark.parametrize("folder", ["", "more", "later"])
def test_every_case_has_its_program_and_every_program_its_expectation(folder: str) -> None:
    base = faults.CASES / folder
    scripts = base / "cases" if (base / "cases").is_dir() else base
    expected = json.loads((base / "expected.json").read_text(encoding="utf-8"))
    assert set(expected) == {p.stem for p in scripts.glob("*.py") if not p.name.startswith("_")}
    assert all(names == [] for case, names in expected.items() if case.startswith("healthy_"))


def test_there_are_at_least_twenty_five_healthy_programs() -> None:
    assert len([p for p in faults.HEALTHY.glob("*.py") if not p.name.startswith("_")]) >= 25


@pytest.fixture
def preloaded(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_of_programs, "PYTHON", python)


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("name", NAMED)
def test_a_fault_is_named_and_its_twin_is_no_error(name: str, tmp_path: Path) -> None:
    found = faults.verdicts(faults.CASES, [0], [name], tmp_path, jobs=2)
    text, met = faults.totals(found)
    assert met, f"{text}\n{faults.table(found)}"


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_wrong_with_a_healthy_program(name: str, tmp_path: Path) -> None:
    outcomes = faults.healthy_programs([0], [name], tmp_path, jobs=1)
    assert len(outcomes) == 1
    text, met = faults.healthy_totals(outcomes)
    assert met, f"{text}\n{faults.healthy_table(outcomes)}"
