"""Parting the command line of `mothtrap run`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mothtrap.cli._group import Refusal
from mothtrap.cli._target import command_of, split

WITH_VALUE = {"--name", "--runs-dir"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "ours", "target"),
    [
        ("train.py --name x", "", "train.py --name x"),
        ("--name x train.py -m", "--name x", "train.py -m"),
        ("--name=x train.py", "--name=x", "train.py"),
        ("--name -m train.py", "--name -m", "train.py"),
        ("-m pkg.mod --name x", "", "-m pkg.mod --name x"),
        ("-mpkg.mod -x", "", "-m pkg.mod -x"),
        ("--help", "--help", ""),
        ("--nonsense train.py", "--nonsense", "train.py"),
        ("--name x -- torchrun -- y", "--name x", "-- torchrun -- y"),
        ("train.py -- x", "", "train.py -- x"),
        ("--name", "--name", ""),
    ],
)
def test_everything_from_the_target_on_is_untouched(line: str, ours: str, target: str) -> None:
    assert split(line.split(), WITH_VALUE) == (ours.split(), target.split())


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("train.py --epochs 3", [sys.executable, "train.py", "--epochs", "3"]),
        ("-- train.py -v", [sys.executable, "train.py", "-v"]),
        ("-m pkg.mod -v", [sys.executable, "-m", "pkg.mod", "-v"]),
        (f"-- {sys.executable} train.py", [sys.executable, "train.py"]),
    ],
)
def test_a_target_becomes_a_command(target: str, command: list[str]) -> None:
    assert command_of(target.split()) == command


def launcher(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    (place / "torchrun").write_text("#!/bin/sh\n")
    (place / "torchrun").chmod(0o755)
    return place


def test_a_program_beside_our_python_needs_no_activated_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = launcher(folder / "venv")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    assert command_of(["--", "torchrun", "train.py"]) == [str(beside / "torchrun"), "train.py"]
    with pytest.raises(Refusal, match="write: mothtrap run -- torchrun"):
        command_of(["torchrun", "train.py"])
    with pytest.raises(Refusal, match=rf"'accelerate' is neither on PATH nor in {beside}"):
        command_of(["--", "accelerate"])


def test_a_program_on_the_path_goes_before_that_beside_our_python(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(launcher(folder / "bin")))
    monkeypatch.setattr(sys, "executable", str(launcher(folder / "venv") / "python"))
    assert command_of(["--", "torchrun", "train.py"]) == ["torchrun", "train.py"]


def test_a_folder_with_a_main_is_a_script(folder: Path) -> None:
    (folder / "app").mkdir()
    with pytest.raises(Refusal, match=r"folder without a __main__\.py"):
        command_of(["app"])
    (folder / "app" / "__main__.py").write_text("")
    assert command_of(["app"]) == [sys.executable, "app"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "missing TARGET: pass a script"),
        ("trian.py", r"no script 'trian\.py' in .*did you mean 'train\.py'"),
        ("other/train.py", r"no script 'other/train\.py' in /"),
        ("-- nope.py", r"no script 'nope\.py'"),
        ("-- no-such-program x", "program 'no-such-program' is neither on PATH"),
        ("sh x", "to run the program 'sh', write: mothtrap run -- sh"),
        ("-m", "-m needs a module"),
        ("--", "-- needs a command"),
    ],
)
def test_a_target_that_cannot_start_is_refused_in_words(target: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        command_of(target.split())
