"""Workers of Ray Train write one run, and are compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.harness.running import Outcome, environment, run

import mothtrap

pytest.importorskip("ray")

PROGRAM = Path(__file__).parent / "programs" / "on_ray_train.py"


def trained(folder: Path, *words: str) -> Outcome:
    """Train with a variant of the program."""
    own = environment(RAY_worker_niceness="0")  # Ray's 15 starves the workers on a busy machine
    return run([sys.executable, PROGRAM, folder / "runs", *words], cwd=folder, env=own)


def test_a_worker_of_ray_train_that_drifts_is_named(tmp_path: Path) -> None:
    done = trained(tmp_path, "drifting")
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = (tmp_path / "runs").iterdir()
    assert_drift_is_named(mothtrap.open_run(path))


def assert_drift_is_named(found: mothtrap.Run) -> None:
    assert (found.workers, found.steps) == ((0, 1), 12)
    [drift] = [finding for finding in found.findings if finding.code == "DST951"]
    assert (drift.workers, drift.layers, drift.step) == ((1,), ("2",), 4)


def test_the_callback_observes_workers_whose_function_does_not_mention_mothtrap(
    tmp_path: Path,
) -> None:
    done = trained(tmp_path, "drifting", "callback")
    assert done.returncode == 0, done.stderr[-3000:]
    found = mothtrap.open_run(tmp_path / "runs" / "joined")
    assert_drift_is_named(found)
    assert found.end is not None
    assert (found.end.exit_code, found.end.lost) == (0, ())
    assert "DST951" in done.stdout + done.stderr, "the controller prints the verdict"


def test_an_exception_of_a_worker_is_in_the_run_of_the_callback(tmp_path: Path) -> None:
    done = trained(tmp_path, "failing", "callback")
    assert "ValueError: a bad row" in done.stderr
    found = mothtrap.open_run(tmp_path / "runs" / "joined")
    assert found.end is not None
    assert found.end.exit_code == 1
    assert "a bad row" in mothtrap_show(tmp_path)


def test_workers_that_ray_restarts_write_to_the_next_attempt(tmp_path: Path) -> None:
    done = trained(tmp_path, "restarting", "callback")
    assert done.returncode == 0, done.stderr[-3000:]
    path = tmp_path / "runs" / "joined"
    assert sorted(p.name for p in path.iterdir() if p.name.isdigit()) == ["1", "2"]
    found = mothtrap.open_run(path)
    assert found.end is not None
    assert (found.workers, found.end.exit_code) == ((0, 1), 0)


def mothtrap_show(folder: Path) -> str:
    done = run([sys.executable, "-m", "mothtrap", "show", "joined"], cwd=folder)
    return done.stdout
