"""Keras programs with one fault each: the fault is named.

By default, those run that only a separate part of the adapter detects; `HARNESS=full` runs all.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import faults
from bench.runs_of_programs import Program, run
from tests.harness.running import FULL

pytest.importorskip("tensorflow", exc_type=ImportError)
pytest.importorskip("sklearn")

CASES = Path(faults.__file__).parent / "faultbench" / "keras"
NAMED = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))
QUICK = {
    "every_target_with_every_prediction",
    "gradients_not_applied",
    "one_unit_categorical",
    "several_labels_are_right",
    "split_of_a_shuffle",
    "stops_at_the_lowest_accuracy",
    "training_flag_missing",
    "validated_in_training_mode",
}


@pytest.mark.parametrize("name", sorted(NAMED if FULL else QUICK))
def test_the_fault_is_named(tmp_path: Path, name: str) -> None:
    script = CASES / "cases" / f"{name}.py"
    outcome = run(Program(script=script, seed=0, healthy=False), tmp_path)
    found = {one["name"] for one in outcome.findings("warning", "error")}
    assert found & set(NAMED[name]), (outcome.error, found)
