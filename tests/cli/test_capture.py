"""`mothtrap capture`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run

from mothtrap.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "x")


def capture(*args: str) -> Result:
    return CliRunner().invoke(main, ["capture", *args])


@pytest.mark.parametrize("asked", [("--add", "loss"), ("--remove", "nope"), ("--every", "3")])
def test_of_a_run_that_has_ended_nothing_can_be_asked(asked: tuple[str, ...]) -> None:
    done = capture("x", "--add", "losses", *asked)
    assert done.exit_code == 2
    assert "x has finished: nothing can be asked of it any more" in done.stderr
    assert "built-in" not in done.stderr
