"""The benchmark of `mothtrap check`: its programs, and the counts of hits and false alarms."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench import checks
from bench.runs_of_programs import Outcome, Program

from mothtrap.monitor.catalogue import rule_classes

EXPECTED = json.loads((checks.CASES / "expected.json").read_text(encoding="utf-8"))
ARGUMENTS = argparse.Namespace(
    budget=60.0, select="", healthy=False, no_twins=False, only="", seeds="0"
)


def outcome(name: str, *findings: tuple[str, str], healthy: bool = False) -> Outcome:
    told = [{"name": code, "severity": severity, "message": ""} for code, severity in findings]
    program = Program(script=Path(f"{name}.py"), seed=0, healthy=healthy)
    return Outcome(program=program, record={"findings": told})


def test_every_program_is_listed_with_rules_that_exist() -> None:
    programs = {path.stem for path in checks.CASES.glob("[!_]*.py")}
    assert programs == set(EXPECTED)
    known = {rule.name() for rule in rule_classes()}
    assert {name for accepted in EXPECTED.values() for name in accepted} <= known


def test_each_fault_has_a_twin() -> None:
    planned, _ = checks.planned(ARGUMENTS)
    faulty = [one.script.stem for one in planned if EXPECTED[one.script.stem] and not one.healthy]
    twins = [one.script.stem for one in planned if one.healthy]
    assert faulty == twins
    texts = [(checks.CASES / f"{name}.py").read_text(encoding="utf-8") for name in twins]
    assert all("args.healthy" in text for text in texts)


def test_a_note_names_a_fault_and_another_name_does_not() -> None:
    named = outcome("layer_forgotten", ("layers_unused", "info"))
    silent = outcome("layer_forgotten", ("cannot_overfit", "error"))
    assert checks.is_named(named, EXPECTED["layer_forgotten"])
    assert not checks.is_named(silent, EXPECTED["layer_forgotten"])


def test_an_error_on_a_twin_misses_the_target() -> None:
    named = outcome("label_noise", ("label_noise", "warning"))
    twin = outcome("label_noise", healthy=True)
    alarm = outcome("label_noise", ("cannot_overfit", "error"), healthy=True)
    assert checks.totals([named, twin], EXPECTED)[1]
    lines, met = checks.totals([named, alarm], EXPECTED)
    assert not met
    assert lines[-1] == (
        "named 1 of 1 faults; of 1 healthy programs 1 have an error and 0 a warning"
    )


def test_three_silent_faults_miss_the_target() -> None:
    two = [outcome(name) for name in ("label_noise", "rate_too_low")]
    assert checks.totals(two, EXPECTED)[1]
    assert not checks.totals([*two, outcome("rows_in_both")], EXPECTED)[1]
