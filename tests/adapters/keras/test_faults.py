"""Keras programs with one fault each: the fault is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import faults
from bench.runs_of_programs import Program, run

pytest.importorskip("tensorflow", exc_type=ImportError)
pytest.importorskip("sklearn")

CASES = Path(faults.__file__).parent / "faultbench" / "keras"
NAMED = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(NAMED))
def test_the_fault_is_named(tmp_path: Path, name: str) -> None:
    script = CASES / "cases" / f"{name}.py"
    outcome = run(Program(script=script, seed=0, healthy=False), tmp_path)
    found = {one["name"] for one in outcome.findings("warning", "error")}
    assert found & set(NAMED[name]), (outcome.error, found)
