"""`mothtrap check` of a script that calls `fit`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import PYTHON, environment, run, show

pytest.importorskip("keras")
pytestmark = pytest.mark.full
SCRIPT = Path(__file__).parent / "fits_and_saves.py"


def test_a_fit_is_checked_and_the_files_of_the_user_stay(tmp_path: Path) -> None:
    for name in ("best.weights.h5", "last.keras", "history.csv"):
        (tmp_path / name).write_text("of an earlier run")
    words = [*PYTHON, "-m", "mothtrap", "check", "--runs-dir", "runs", "--name", "seen"]
    outcome = run([*words, "--", *PYTHON, str(SCRIPT)], cwd=tmp_path, env=environment())
    assert outcome.returncode == 0, outcome.stderr
    assert "the loss falls when one batch is repeated" in outcome.stderr
    record = show(tmp_path / "runs" / "seen", cwd=tmp_path)
    states = {rule["code"]: rule["state"] for rule in record["rules"]}
    assert {states[code] for code in ("PRE101", "PRE104", "STR707", "PRE301")} == {"ok"}
    assert record["run"]["steps"] == 10
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    own = {path.name: path.read_text() for path in files if "runs" not in path.parts}
    assert set(own) == {"best.weights.h5", "last.keras", "history.csv"}
    assert set(own.values()) == {"of an earlier run"}
