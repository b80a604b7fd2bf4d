"""`show --save-baseline`, `show --baseline` and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with an error, and a later run with the same error and another one."""
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "before", findings=(exploding(),), created_s=1.0)
    other = exploding(code="NUM001", name="nonfinite_loss", fingerprint="bbbb")
    store_run(tmp_path / "runs" / "after", findings=(exploding(), other), created_s=2.0)


def mothtrap(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def codes(done: Result) -> list[str]:
    return [finding["code"] for finding in json.loads(done.stdout)["findings"]]


@pytest.mark.parametrize("file", [[], ["known.json"]], ids=["default file", "a file"])
def test_only_what_is_new_is_shown_and_fails(file: list[str], tmp_path: Path) -> None:
    saved = mothtrap("show", "before", "--save-baseline", *file)
    assert (saved.exit_code, saved.stdout) == (0, "")
    assert "1 known finding" in saved.stderr
    assert (tmp_path / (file[0] if file else "mothtrap-baseline.json")).is_file()
    options = ["--format", "json", "--fail-on", "error", "--baseline", *file]
    known, new = mothtrap("show", "before", *options), mothtrap("show", "after", *options)
    assert (known.exit_code, codes(known)) == (0, [])
    assert (new.exit_code, codes(new)) == (1, ["NUM001"])
    assert json.loads(new.stdout)["known"] == 1


def test_never_is_never() -> None:
    assert mothtrap("show", "after", "--fail-on", "never").exit_code == 0
    assert mothtrap("show", "after", "--fail-on", "warning").exit_code == 1


def test_a_baseline_that_is_not_there_is_a_mistake_of_usage() -> None:
    done = mothtrap("show", "after", "--baseline", "gone.json")
    assert done.exit_code == 2
    assert "cannot read the baseline gone.json" in done.stderr
