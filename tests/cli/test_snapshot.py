"""`mothtrap snapshot`: a running job keeps its next step, and snapshots are listed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, TIMEOUT_S, environment, finish, observed, start
from tests.snapshot import samples
from tests.store.test_layout import info

import mothtrap
from mothtrap.core.runs import RunEnd
from mothtrap.snapshot import format as files
from mothtrap.store import layout

PROGRAM = Path(__file__).parent.parent / "session" / "endless_training.py"


def mothtrap_says(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*MOTHTRAP, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT_S)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    """A training run that continues until the test ends."""
    target = [PROGRAM, tmp_path / "stop", tmp_path / "kept.json"]
    command = observed(target, runs_dir=tmp_path / "runs", name="job")
    process = start(command, cwd=tmp_path, env=environment())
    path, deadline_s = tmp_path / "runs" / "job", time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        if layout.attempts(path) and mothtrap.open_run(path).steps:
            break
        time.sleep(0.1)
    yield path
    (tmp_path / "stop").touch()
    outcome = finish(process)
    assert outcome.returncode == 0, outcome.stderr


def test_a_running_job_keeps_its_next_step(job: Path) -> None:
    said = mothtrap_says(job.parent, "snapshot", str(job), "--format", "json", "--timeout", "120")
    assert said.returncode == 0, said.stderr
    (facts,) = json.loads(said.stdout)
    assert facts["reason"] == "request"
    assert facts["state_step"] == facts["step"]
    loaded = files.load(Path(facts["folder"]))
    assert loaded.snapshot.truth is not None
    assert loaded.snapshot.steps[-1].events
    shown = mothtrap_says(job.parent, "show", str(job)).stdout
    assert f"can be replayed: step {facts['step']}: mothtrap replay job --step" in shown


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    run = layout.create_run(tmp_path / "runs" / "x", info(config={})).parent
    for step in (3, 12):
        folder = files.folder_of(run, step, 0)
        files.write(folder, samples.snapshot(step, state_step=7), samples.STATE, samples.STEPS)
    (files.folder_of(run, 12, 0) / files.HEAD).write_text("{}")
    layout.write_end(run / "1", RunEnd(exit_code=0, ended_s=1.0))
    return run


def test_a_list_names_what_there_is_and_what_is_damaged(ended: Path) -> None:
    said = mothtrap_says(ended.parent, "snapshot", str(ended), "--list")
    assert said.returncode == 0, said.stderr
    first, second = said.stdout.splitlines()
    assert first.startswith("step 3, rank 0: nonfinite, state of step 7, 0.0 MB: ")
    assert first.endswith("mothtrap replay x --step 3")
    assert second.startswith("step 12, rank 0: ")
    assert "do not match its checksum" in second


def test_of_a_run_that_has_ended_nothing_can_be_asked(ended: Path) -> None:
    said = mothtrap_says(ended.parent, "snapshot", str(ended))
    assert said.returncode == 2
    assert "it takes no requests" in said.stderr


def test_a_run_without_any_says_so(tmp_path: Path) -> None:
    run = layout.create_run(tmp_path / "runs" / "x", info(config={})).parent
    said = mothtrap_says(run.parent, "snapshot", str(run), "--list")
    assert (said.returncode, said.stdout) == (0, "")
    assert "x has no snapshots" in said.stderr
