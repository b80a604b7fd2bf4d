"""`mothtrap learn`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.core.invariants import Present, Range, read


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs whose loss is 1 / (step + 1): two of 40 steps, and one of 12."""
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "a", steps=40)
    store_run(tmp_path / "runs" / "b", steps=40)
    store_run(tmp_path / "runs" / "short")
    return tmp_path


def learn(*words: str) -> Result:
    return CliRunner().invoke(main, ["learn", *words])


def test_writes_a_file_that_can_be_read() -> None:
    done = learn("a", "runs/b", "-o", "x.toml")
    assert done.exit_code == 0, done.output
    assert done.stdout == "x.toml: 2 invariants, from 2 runs\n"
    assert done.stderr == "reading a (1 of 2)\nreading b (2 of 2)\n"
    assert read("x.toml") == (
        Range(of="loss", at_least=0.0, at_most=10.0),
        Present(of="loss", patience=20),
    )


def test_the_same_run_twice_is_one() -> None:
    done = learn("a", "a", "-o", "x.toml")
    assert "warning: bounds learned from one run are very wide" in done.stderr
    assert read("x.toml")[0] == Range(of="loss", at_least=0.0, at_most=100.0)


def test_warns_of_a_run_that_is_not_healthy(folder: Path) -> None:
    store_run(folder / "runs" / "faulty", findings=(exploding(),), steps=40)
    done = learn("a", "faulty", "-o", "x.toml")
    assert done.exit_code == 0
    assert "warning: faulty is not healthy (findings of severity error: 1)" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone", "-o", "x.toml"), "gone"),
        (("short", "-o", "x.toml"), "nothing can be learned from short: .* 20 steps"),
        (("a", "-o", "there.toml"), r"there\.toml already exists; remove it"),
        (("-o", "x.toml"), r"Missing argument 'RUN\.\.\.'"),
        (("a",), "Missing option '-o'"),
    ],
)
def test_refuses_in_words(words: tuple[str, ...], message: str, folder: Path) -> None:
    (folder / "there.toml").write_text("")
    done = learn(*words)
    assert done.exit_code == 2
    assert re.search(message, done.stderr)
    assert not (folder / "x.toml").exists()
