"""kill -9 in the middle of a training costs at most the steps that were still queued."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.harness.running import ITSELF, PYTHON, finish, observed, script_of, show, start

from mothtrap.core.errors import RunNotFoundError
from mothtrap.reader.run import open_run

SCRIPT = Path(__file__).parent / "endless_training.py"
STEPS = 300


def stored_steps(path: Path) -> int:
    try:
        return open_run(path).steps
    except RunNotFoundError:
        return 0


def train_until_stored(process: subprocess.Popen[str], path: Path) -> list[str]:
    """Read what the training prints until enough of its steps are on the disk."""
    assert process.stdout is not None
    lines: list[str] = []
    while len(lines) % 100 or stored_steps(path) < STEPS:
        line = process.stdout.readline()
        assert line, f"the training ended after {len(lines)} steps"
        lines.append(line)
    return lines


@pytest.mark.parametrize(
    "launcher",
    [pytest.param(False, id="the job", marks=pytest.mark.full), pytest.param(True, id="both")],
)
def test_after_kill_9_everything_written_is_there(launcher: bool, tmp_path: Path) -> None:
    target = ["--", *PYTHON, SCRIPT]
    command = observed(target, runs_dir=tmp_path, name="seen", python=ITSELF)
    process = start(command, cwd=tmp_path)
    lines = train_until_stored(process, tmp_path / "seen")
    job = script_of(open_run(tmp_path / "seen"))
    for victim in [process.pid, job] if launcher else [job]:
        os.kill(victim, signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read()  # `communicate` would skip what is buffered here
    outcome = finish(process)
    assert outcome.returncode == -signal.SIGKILL
    lines += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    losses = [float(line.split()[1]) for line in lines]

    record = show(tmp_path / "seen", cwd=tmp_path)
    assert record["run"]["state"] == "crashed"
    assert record["run"]["steps"] >= STEPS
    (series,) = open_run(tmp_path / "seen").scalars("loss")
    stored = series.values_S.tolist()
    assert series.steps_S.tolist() == list(range(len(stored)))
    assert len(stored) == record["run"]["steps"] <= len(losses) + 1
    assert stored[: len(losses)] == losses[: len(stored)]
