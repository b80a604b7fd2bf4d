"""Workers of Ray Train write one run, and are compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.harness.running import environment, run

import mothtrap

pytest.importorskip("ray")

PROGRAM = Path(__file__).parent / "programs" / "on_ray_train.py"


def test_a_worker_of_ray_train_that_drifts_is_named(tmp_path: Path) -> None:
    words = [sys.executable, PROGRAM, tmp_path / "runs", "drifting"]
    done = run(words, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = (tmp_path / "runs").iterdir()
    found = mothtrap.open_run(path)
    assert (found.workers, found.steps) == ((0, 1), 12)
    [drift] = [finding for finding in found.findings if finding.code == "DST951"]
    assert (drift.workers, drift.layers, drift.step) == ((1,), ("2",), 4)
