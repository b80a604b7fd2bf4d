"""The commands printed at the end of a job can be typed exactly as printed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.cli.stored_run import store_run
from tests.harness.running import MOTHTRAP, PYTHON, observed, run
from tests.replay.test_bad_steps import FOLDER
from tests.report.faulty_run import exploding

from mothtrap.core.config import Config
from mothtrap.reader.run import open_run
from mothtrap.session.verdict import print_verdict

COMMANDS = {
    "replay": r"next: mothtrap (replay \S+ --step 157)$",
    "show": r"^  .*mothtrap (show \S+)$",
    "live": r"step 157 kept: mothtrap (replay \S+ --step 157)$",
}


@pytest.mark.parametrize("folder", [pytest.param("own", marks=pytest.mark.full), "runs"])
def test_what_is_told_at_the_end_finds_the_run(folder: str, tmp_path: Path) -> None:
    for name in ("log_of_zero.py", "telling.py"):
        shutil.copy(FOLDER / name, tmp_path)
    words = observed(["--", *PYTHON, "log_of_zero.py"], runs_dir=Path(folder), name="seen")
    ended = run(words, cwd=tmp_path)
    told = {}
    for name, pattern in COMMANDS.items():
        found = re.search(pattern, ended.stderr, re.MULTILINE)
        assert found, ended.stderr
        told[name] = found[1].split()
    called = "seen" if folder == "runs" else "own/seen"
    assert (told["replay"][1], told["show"][1]) == (called, called)
    shown = run([*MOTHTRAP, *told["show"]], cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert f"mothtrap {' '.join(told['replay'])}" in shown.stdout
    again = run([*MOTHTRAP, *told["replay"], "--no-narrow"], cwd=tmp_path)
    assert "replayed: bit-identical" in again.stdout, again.stderr
    listed = run([*MOTHTRAP, "snapshot", "seen", "--list", "--runs-dir", folder], cwd=tmp_path)
    assert f"mothtrap replay {called} --step 157" in listed.stdout, listed.stderr


@pytest.mark.parametrize(("healthy", "printed"), [(True, False), (False, True)])
def test_a_quiet_run_prints_findings_and_nothing_else(
    healthy: bool, printed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_run(tmp_path / "x", findings=() if healthy else (exploding(),))
    print_verdict(tmp_path / "x", Config(quiet=True))
    said = capsys.readouterr().err
    assert ("Exploding gradient" in said) is printed
    assert bool(said) is printed
    print_verdict(tmp_path / "x", Config())
    assert "mothtrap show" in capsys.readouterr().err


def test_the_verdict_of_a_run_can_be_asked_for_in_python(tmp_path: Path) -> None:
    store_run(tmp_path / "x", findings=(exploding(),))
    assert open_run(tmp_path / "x").verdict.startswith("Exploding gradient in blocks.1.attn.q")
    store_run(tmp_path / "y")
    assert open_run(tmp_path / "y").verdict.startswith("Nothing wrong was found in")
