"""Bad steps in trainers are replayed, bit-identical, to operation, line and row.

The steps are in the middle of an epoch, and the programs branch on counters of their trainer.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, PYTHON, observed, run
from tests.replay.trainers.rows import BAD

pytest.importorskip("lightning")
pytest.importorskip("transformers")

FOLDER = Path(__file__).parent
PROGRAMS = {
    "closure": ("by_lightning",),
    "accumulation": ("by_lightning", "accumulation"),
    "bf16": ("by_lightning", "bf16"),
    "manual": ("by_lightning", "manual"),
    "trainer": ("by_trainer",),
    "accelerate": ("by_accelerate",),
}
STEPS = {"closure": 16, "bf16": 16, "manual": 16}
"""Steps per epoch of the variants in which a step is not four batches."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_step_is_replayed_to_operation_line_and_row(name: str, tmp_path: Path) -> None:
    program, *arguments = PROGRAMS[name]
    script = FOLDER / f"{program}.py"
    target = [*PYTHON, script, *arguments]
    seen = run(observed(["--", *target], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    assert "switched off" not in seen.stderr
    outcome = run([*MOTHTRAP, "replay", tmp_path / "seen", "--format", "json"], cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    again = json.loads(outcome.stdout)
    told = json.dumps(again, indent=1)
    assert again["match"] is True, told
    assert again["step"] % (STEPS.get(name, 4)), told
    assert again["operation"] == "torch.log", told
    lines = script.read_text(encoding="utf-8").splitlines()
    [marked] = [number for number, line in enumerate(lines, start=1) if line.endswith("# <- here")]
    assert again["location"].endswith(f"{program}.py:{marked}"), told
    assert len(again["rows"]) == 1, told
    assert again["samples"][0].split()[0] == str(BAD), told
