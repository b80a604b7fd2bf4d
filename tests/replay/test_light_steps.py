"""A light step that goes bad is replayed bit for bit, and narrowed down like a full one.

Every sixth program by default; with `HARNESS=full` all.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import FULL, MOTHTRAP, PYTHON, observed, run

from mothtrap.core.facts.captures import FullSteps
from mothtrap.reader.run import open_run

FOLDER = Path(__file__).parent / "light"
BAD, ROW = 77, 3
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")
LINE = 1 + next(
    number
    for number, line in enumerate((FOLDER / "common.py").read_text(encoding="utf-8").splitlines())
    if line.endswith("# <- here")
)


@pytest.mark.parametrize("program", PROGRAMS[:: 1 if FULL else 12])
def test_a_bad_light_step_is_replayed_and_narrowed_down(program: str, tmp_path: Path) -> None:
    script = FOLDER / f"{program}.py"
    words = observed(["--", *PYTHON, script], runs_dir=tmp_path, name="seen")
    outcome = run(words, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "switched off" not in outcome.stderr
    [rule] = open_run(tmp_path / "seen").observations(FullSteps)
    assert rule.step <= 64  # fewer on a busy machine
    assert rule.every == 10  # so that the bad step is a light one
    words = [*MOTHTRAP, "replay", tmp_path / "seen", "--format", "json", "--", *PYTHON, script]
    outcome = run(words, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    again = json.loads(outcome.stdout)
    told = json.dumps(again, indent=1)
    bad = BAD - 1 if program == "gan" else BAD
    assert (again["step"], again["match"]) == (bad, True), told
    assert again["operation"] == "torch.log", told
    assert again["location"].endswith(f"common.py:{LINE}"), told
    assert again["rows"] == [ROW], told


def test_all_ways_to_feed_a_step_are_tried() -> None:
    assert len(PROGRAMS) == 12
