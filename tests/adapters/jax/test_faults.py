"""Programs with one fault each: it is named, and the repaired program has no error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import faults
from bench.runs_of_programs import Program, run

pytest.importorskip("jax")
pytest.importorskip("equinox")

CASES = Path(faults.__file__).parent / "faultbench" / "jax"
NAMES = sorted(json.loads((CASES / "expected.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", NAMES)
def test_the_fault_is_named_and_its_twin_is_quiet(tmp_path: Path, name: str) -> None:
    [verdict] = faults.verdicts(CASES, [0], [name], tmp_path, 1)
    assert not verdict.broken
    assert verdict.naming is not None, [f["message"] for f in verdict.faulty.findings("error")]
    assert not verdict.alarms, [f["message"] for f in verdict.alarms]


def test_a_print_in_each_step_is_a_note(tmp_path: Path) -> None:
    script = CASES / "cases" / "prints_each_step.py"
    outcome = run(Program(script=script, seed=0, healthy=False), tmp_path)
    assert not outcome.error
    assert [found["name"] for found in outcome.findings("info")] == ["callback_in_step"]
    assert not outcome.findings("warning", "error")
