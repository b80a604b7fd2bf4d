from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mothtrap.core import ledger
from mothtrap.session import repository
from mothtrap.session.repository import SourceKeeper, read_source, script_folder
from mothtrap.store import layout


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=n", "-c", "user.email=e@x")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *names, *words], capture_output=True, check=True, env=environ
    )
    return done.stdout.decode().strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "train.py").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_a_clean_repository_tells_its_commit(folder: Path) -> None:
    found = read_source(folder)
    assert (found.commit, found.branch) == (git(folder, "rev-parse", "HEAD"), "trunk")
    assert (found.changed, found.diff, found.error) == ((), "", "")


def test_changes_are_kept(folder: Path) -> None:
    (folder / "train.py").write_text("a = 2\n")
    (folder / "notes.txt").write_text("not in the repository\n")
    found = read_source(folder)
    assert (found.changed, found.changed_count) == (("train.py",), 1)
    assert "-a = 1\n+a = 2\n" in found.diff
    assert not found.cut


def test_long_changes_are_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "DIFF_CHARACTERS", 20)
    (folder / "train.py").write_text("a = 2\n")
    found = read_source(folder)
    assert (len(found.diff), found.cut) == (20, True)
    assert ledger.DIFF_CHARACTERS > 20


def test_nothing_of_the_repository_is_written(folder: Path) -> None:
    os.utime(folder / "train.py", (1, 1))  # git would record that in its index
    before = (folder / ".git" / "index").stat().st_mtime_ns
    read_source(folder)
    assert (folder / ".git" / "index").stat().st_mtime_ns == before
    assert not (folder / ".git" / "index.lock").exists()


def test_without_a_repository_the_reason_is_told(tmp_path: Path) -> None:
    found = read_source(tmp_path)
    assert found.commit == ""
    assert "not a git repository" in found.error


def test_a_slow_or_missing_git_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("git", 1)

    monkeypatch.setattr(subprocess, "run", slow)
    assert "took longer" in read_source(folder).error
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    assert read_source(folder).error == "git is not installed"


def test_the_file_is_there_after_the_end(folder: Path) -> None:
    keeper = SourceKeeper(folder, folder)
    keeper.close()
    found = layout.read_source(folder)
    assert found is not None
    assert found.branch == "trunk"


def test_the_script_says_which_folder_is_meant(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert script_folder(["python", str(folder / "train.py"), "--lr", "1"]) == folder
    monkeypatch.chdir(folder)
    assert script_folder(["python", "-m", "train"]) == folder
    assert script_folder(["python", "missing.py"]) == folder
