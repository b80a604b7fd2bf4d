"""The printed name of a run is one with which a command finds it from the current folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.store.test_layout import info

from mothtrap.core.config import load_config
from mothtrap.store import layout
from mothtrap.store.naming import name_here


def found(name: str) -> Path:
    """Return the run that a command finds when it gets the name and no option."""
    config, _ = load_config(start=Path.cwd(), environ=os.environ)
    return layout.find_run(name, config.runs_dir).resolve()


@pytest.mark.parametrize(
    ("folder", "name"), [("runs", "x"), ("own", "own/x"), ("../elsewhere", None)]
)
def test_the_name_finds_the_run_without_an_option(
    folder: str, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    run = layout.create_run(Path(folder) / "x", info(config={})).parent
    told = name_here(run)
    assert told == (name or str((here / folder / "x").absolute()))
    assert found(told) == run.resolve()


def test_a_folder_that_a_file_or_a_variable_names_needs_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOTHTRAP_RUNS_DIR", "own")
    run = layout.create_run(tmp_path / "own" / "x", info(config={})).parent
    assert name_here(run) == "x"
    assert found("x") == run.resolve()


def test_a_configuration_that_cannot_be_read_leaves_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOTHTRAP_SNAPSHOTS", "many")
    assert name_here(tmp_path / "runs" / "x") == "runs/x"
