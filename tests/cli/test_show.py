"""`mothtrap show` and `mothtrap ls`."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.findings import Severity
from mothtrap.core.runs import RunEnd
from mothtrap.store import layout


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a clean run and a later, faulty run, in the working directory."""
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "clean", created_s=1.0)
    store_run(tmp_path / "runs" / "faulty", findings=(exploding(),), created_s=2.0)
    return tmp_path / "runs"


def mothtrap(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_show_takes_the_latest_run_a_name_or_a_path(runs: Path) -> None:
    latest = mothtrap("show")
    assert latest.exit_code == 0
    assert "GRD101 exploding_gradient" in latest.output
    assert mothtrap("show", "faulty").output == latest.output
    assert mothtrap("show", str(runs / "faulty")).output == latest.output
    assert mothtrap("show", "clean").output.startswith("Nothing wrong was found in 12 steps")


def test_show_json_is_for_programs(runs: Path) -> None:
    data = json.loads(mothtrap("show", "--format", "json", "--all").output)
    assert data["run"]["steps"] == 12
    assert data["run"]["state"] == "finished"
    assert data["findings"][0]["evidence"] == {"value": "NaN"}
    assert data["rules"] == [
        {"code": "NUM001", "name": "nonfinite_loss", "state": "ok", "reason": ""}
    ]


def test_show_json_is_short_by_default(runs: Path) -> None:
    shown = mothtrap("show", "--format", "json").output
    data = json.loads(shown)
    assert data["schema_version"] == 1
    assert data["run"]["state"] == "finished"
    assert data["findings"][0]["code"] == "GRD101"
    assert data["rule_states"] == {"ok": 1}
    assert "rules" not in data
    assert len(shown) < len(mothtrap("show", "--format", "json", "--all").output)


def test_verbose_show_prints_where_mothtrap_itself_failed(runs: Path) -> None:
    trace = (
        "Traceback (most recent call last):\n  File samples.py, line 3\x1b[2J\nValueError: odd\n"
    )
    failure = ToolError(step=3, part="samples", error="ValueError: odd", traceback=trace)
    store_run(runs / "failed", failures=(failure,), created_s=3.0)
    assert "line 3" not in mothtrap("show", "failed").output
    told = mothtrap("-v", "show", "failed").output
    assert "mothtrap failed in samples:\nTraceback" in told
    assert "line 3" in told
    assert "\x1b" not in told


def test_show_concise_is_for_editors(runs: Path) -> None:
    assert mothtrap("show", "--format", "concise").output.startswith("model.py:88:1: GRD101 error:")


@pytest.mark.parametrize(
    ("severity", "limit", "code"),
    [
        (Severity.ERROR, "error", 1),
        (Severity.WARNING, "error", 0),
        (Severity.WARNING, "warning", 1),
        (Severity.INFO, "warning", 0),
        (Severity.INFO, "info", 1),
    ],
)
def test_show_fails_only_where_asked(
    tmp_path: Path, severity: Severity, limit: str, code: int
) -> None:
    store_run(tmp_path / "x", findings=(exploding(severity=severity),))
    assert mothtrap("show", str(tmp_path / "x")).exit_code == 0
    assert mothtrap("show", str(tmp_path / "x"), "--fail-on", limit).exit_code == code


def test_an_unknown_run_names_the_nearest(runs: Path) -> None:
    done = mothtrap("show", "clan")
    assert done.exit_code == 2
    assert "did you mean 'clean'?" in done.stderr


def test_without_any_run_it_is_said_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "mothtrap run train.py" in mothtrap("show").stderr
    listed = mothtrap("ls")
    assert listed.exit_code == 0
    assert listed.stdout == ""
    assert "no runs in runs; record one with: mothtrap run train.py" in listed.stderr


def test_ls_lists_the_latest_last_with_counts_and_verdict(runs: Path) -> None:
    lines = mothtrap("ls").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["clean", "faulty"]
    assert "12 steps  0 errors, 0 warnings" in lines[0]
    assert "12 steps  1 error, 0 warnings" in lines[1]
    assert "Nothing wrong was found" in lines[0]
    assert mothtrap("ls", str(runs)).stdout.splitlines() == lines


def test_ls_says_when_and_how_a_run_ended(runs: Path) -> None:
    end = RunEnd(exit_code=7, ended_s=3.0)
    layout.write_end(runs / "faulty" / "1", end)
    lines = mothtrap("ls").stdout.splitlines()
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(1.0))
    assert lines[0].startswith(f"clean   {when}  finished  ")
    assert "  exit code 7  " in lines[1]


def test_ls_ends_lines_with_the_terminal_and_not_in_a_pipe(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mothtrap("ls").stdout.splitlines()
    assert max(map(len, whole)) > 100
    shown = on_terminal([sys.executable, "-m", "mothtrap", "ls"], columns=100)
    assert [len(line) for line in shown] == [100, 100]
    assert [line[:90] for line in shown] == [line[:90] for line in whole]


def on_terminal(command: list[str], columns: int) -> list[str]:
    """Return the output of a command on a terminal of some width."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    variables = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    with subprocess.Popen(command, stdout=theirs, env=variables) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # a terminal without a writer
            while part := os.read(ours, 1 << 16):
                said += part
    os.close(ours)
    assert process.returncode == 0
    return said.decode().splitlines()


def test_ls_json_is_for_programs(runs: Path) -> None:
    rows = json.loads(mothtrap("ls", "--format", "json").output)
    assert [row["run"]["id"] for row in rows] == ["clean", "faulty"]


def test_ls_passes_over_what_is_no_run(runs: Path) -> None:
    (runs / "notes").mkdir()
    (runs / "file.txt").write_text("x")
    assert len(mothtrap("ls").stdout.splitlines()) == 2


def test_ls_says_that_a_file_is_no_folder(runs: Path) -> None:
    (runs / "file.txt").write_text("x")
    done = mothtrap("ls", str(runs / "file.txt"))
    assert done.exit_code == 2
    assert "file.txt is a file, not a folder" in done.stderr


def test_ls_of_an_empty_folder_says_that_it_holds_no_runs(tmp_path: Path) -> None:
    done = mothtrap("ls", str(tmp_path))
    assert done.exit_code == 0
    assert f"no runs in {tmp_path}" in done.stderr


def test_names_of_a_run_cannot_steer_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = exploding(layers=("\x1b]0;owned\x07",), message="a\x1b[2J\nb", location="\x1b[1mx:1")
    store_run(tmp_path / "runs" / "x", findings=(hostile,))
    for args in (["show"], ["show", "--format", "concise"], ["ls"]):
        shown = mothtrap(*args).output
        assert not any(ord(c) < 32 and c != "\n" for c in shown)


def test_ls_names_the_folder_as_every_other_command_does(tmp_path: Path) -> None:
    store_run(tmp_path / "there" / "clean")
    named = CliRunner().invoke(main, ["ls", "--runs-dir", str(tmp_path / "there")])
    assert "clean" in named.output
    assert named.output == CliRunner().invoke(main, ["ls", str(tmp_path / "there")]).output
    assert CliRunner().invoke(main, ["ls", "here", "--runs-dir", "there"]).exit_code == 2
