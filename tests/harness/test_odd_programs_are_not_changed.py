"""Programs with unusual tensors end as they do without mothtrap.

They count what happens to their tensors, draw random numbers meanwhile, or resize memory that was
read. By default each runs with everything captured, and every sixth also with the default capture;
`HARNESS=full` runs each in every way.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import FULL, PYTHON, Cache, environment, observed, run, show

FOLDER = Path(__file__).parents[1] / "odd"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "telling")
WAYS = {"default": {}, "everything": {"MOTHTRAP_CAPTURE": "everything", "MOTHTRAP_OVERHEAD": "0"}}
CASES = [
    *((program, "everything") for program in PROGRAMS),
    *((program, "default") for program in PROGRAMS[:: 1 if FULL else 6]),
]


@pytest.mark.parametrize(("program", "way"), CASES)
def test_odd_program_is_not_changed(program: str, way: str, cache: Cache, tmp_path: Path) -> None:
    command = [*PYTHON, str(FOLDER / f"{program}.py")]
    plain = cache.get(program, lambda: run(command, cwd=tmp_path, env=environment()))
    assert plain.returncode == 0, f"the program itself fails:\n{plain.stderr}"
    seen = run(
        observed(["--", *command], runs_dir=tmp_path, name="seen"),
        cwd=tmp_path,
        env=environment(**WAYS[way]),
    )
    assert (seen.stdout, seen.returncode) == (plain.stdout, 0), seen.stderr
    assert show(tmp_path / "seen", cwd=tmp_path).get("tool_errors", []) == []
