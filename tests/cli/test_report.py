"""`mothtrap report` writes the format that the file's name asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    store_run(tmp_path / "runs" / "faulty", findings=(exploding(),))


def report(*args: str) -> Result:
    return CliRunner().invoke(main, ["report", *args])


def test_the_name_of_the_file_says_the_format(tmp_path: Path) -> None:
    for name, begins in (
        ("r.html", "<!doctype html>"),
        ("r.md", "## mothtrap: faulty"),
        ("r.xml", "<?xml"),
        ("r.json", "{"),
        ("r.sarif", "{"),
    ):
        done = report("faulty", "-o", name)
        assert done.exit_code == 0, done.output
        assert (tmp_path / name).read_text().startswith(begins)
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
    assert "<svg" in (tmp_path / "r.html").read_text()


def test_without_a_file_it_goes_to_stdout() -> None:
    assert report().stdout.startswith("<!doctype html>")
    assert report("--format", "markdown").stdout.startswith("## mothtrap")


def test_findings_may_fail_the_command_unless_they_are_known(tmp_path: Path) -> None:
    assert report("--format", "junit", "--fail-on", "error").exit_code == 1
    assert CliRunner().invoke(main, ["show", "--save-baseline", "known.json"]).exit_code == 0
    known = report("--format", "junit", "--fail-on", "error", "--baseline", "known.json")
    assert known.exit_code == 0
    assert "Hidden: 1 known finding in the baseline" in report("--baseline", "known.json").stdout


def test_under_github_the_summary_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert report("--format", "github").stdout.startswith("::error file=model.py,line=88")
    assert "GRD101" in (tmp_path / "summary.md").read_text()


def test_what_cannot_be_written_is_said() -> None:
    for args, said in (
        (("-o", "nowhere/r.html"), "cannot write nowhere/r.html: No such file"),
        (("-o", "report"), "cannot infer the format"),
    ):
        done = report(*args)
        assert done.exit_code == 2
        assert said in done.stderr


def test_on_a_terminal_a_report_can_be_read_and_says_how_to_get_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert report("faulty").output.startswith("<!doctype html>")
    monkeypatch.setattr("mothtrap.cli.report._is_read", lambda: True)
    shown = report("faulty")
    assert shown.stdout.startswith("## mothtrap: faulty")
    assert "mothtrap report faulty -o report.html" in shown.output
    assert report("faulty", "--format", "html").output.startswith("<!doctype html>")
