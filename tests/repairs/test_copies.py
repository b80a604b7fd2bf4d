"""Copies of the fault programs, on which repairs are measured, do not contain their repair."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from bench.agents import MOST_FAULTS, Used
from bench.repairing import Case, cases
from bench.without_twin import switched_off

CASES = {case.name: case for case in cases(())}
HELPERS = sorted({path for case in CASES.values() for path in case.script.parent.glob("_*.py")})
TELLING = ("healthy", "twin", "fixed", "repair", "#", '"""')


def shown(script: Path) -> list[str]:
    text = switched_off(script.read_text(encoding="utf-8"))
    ast.parse(text)
    return [word for word in TELLING if word in text]


@pytest.mark.parametrize("case", [CASES["encoder_without_grad"], CASES["eval_forever"]])
def test_a_copy_shows_nothing_of_its_repair(case: Case) -> None:
    assert not shown(case.script)


@pytest.mark.full
def test_no_copy_shows_anything_of_its_repair() -> None:
    assert not {name: found for name, case in CASES.items() if (found := shown(case.script))}


def test_helpers_show_nothing_of_the_repairs() -> None:
    assert not {path.name: found for path in HELPERS if (found := shown(path))}


def test_the_branch_with_the_fault_stays() -> None:
    source = "x = 1 if args.healthy else 2\nif not run.healthy:\n    y = 3\nelse:\n    y = 4\n"
    assert switched_off(source) == "x = 2\ny = 3\n"


def test_there_are_enough_programs_for_agents() -> None:
    assert len(CASES) >= MOST_FAULTS
    assert Used(runs=2, tokens=4000).within
    assert not Used(runs=3, tokens=10).within
