"""`mothtrap replay`: refused requests, and messages before a command is executed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.session.test_replay import keep, snapshot
from tests.store.test_layout import info

from mothtrap.cli import main
from mothtrap.core.runs import RunEnd
from mothtrap.store import layout


def replay(run: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["replay", str(run), *words])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of another machine that has ended."""
    made = info(host="elsewhere", config={}, command=("touch", "executed"), cwd=str(tmp_path))
    attempt = layout.create_run(tmp_path / "runs" / "x", made)
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=time.time()))
    keep(attempt.parent, snapshot(3, cwd=str(tmp_path), command=("touch", "executed")))
    return attempt.parent


def test_a_command_of_another_machine_is_shown_and_not_executed_unasked(
    run: Path, tmp_path: Path
) -> None:
    done = replay(run)
    assert done.exit_code == 2
    assert f"mothtrap: starting `touch executed` in {tmp_path}" in done.output
    assert "recorded on another machine (elsewhere)" in done.output
    assert not (tmp_path / "executed").exists()
    done = replay(run, "--anyway")
    assert "never reached step 3" in done.output
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("there", ["test_x.py", "test_x.npz"])
def test_a_test_is_not_written_over_a_file(run: Path, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    done = replay(run, "--as-test", str(tmp_path / "test_x.py"))
    assert done.exit_code == 2
    assert f"--as-test would overwrite {tmp_path / there}" in done.output
    assert (tmp_path / there).read_text() == "mine"


def test_a_test_is_a_python_file(run: Path) -> None:
    done = replay(run, "--as-test", "arrays.npz")
    assert done.exit_code == 2
    assert "--as-test arrays.npz is not a Python file" in done.output


@pytest.mark.parametrize("option", ["--pdb", "--no-narrow"])
def test_a_test_needs_the_search_for_what_went_wrong(run: Path, option: str) -> None:
    done = replay(run, "--as-test", "test_x.py", option)
    assert done.exit_code == 2
    assert f"--as-test needs the search for the failure; omit {option}" in done.output
