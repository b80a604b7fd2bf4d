"""Every reader shows the kind of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stored_run import store_run

from mothtrap import open_run
from mothtrap.cli import main
from mothtrap.core.runs import RunKind
from mothtrap.web.listing import RunsFolder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a check and a training run."""
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "trained", created_s=1.0)
    store_run(tmp_path / "runs" / "tried", created_s=2.0, kind=RunKind.CHECK)
    return tmp_path / "runs"


def mothtrap(*args: str) -> str:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_without_a_stored_kind_is_a_training_run(runs: Path) -> None:
    stored = runs / "trained" / "1" / "run.json"
    info = json.loads(stored.read_text())
    assert info.pop("kind") == "train"
    stored.write_text(json.dumps(info))
    assert open_run(runs / "trained").kind is RunKind.TRAIN
    assert json.loads(mothtrap("show", "trained", "--format", "json"))["run"]["kind"] == "train"


def test_show_names_the_kind(runs: Path) -> None:
    assert open_run(runs / "tried").kind is RunKind.CHECK
    assert "kind: check" in mothtrap("show", "tried")
    assert "kind:" not in mothtrap("show", "trained")
    assert json.loads(mothtrap("show", "tried", "--format", "json"))["run"]["kind"] == "check"


def test_ls_names_and_selects_the_kind(runs: Path) -> None:
    first, second = mothtrap("ls").splitlines()
    assert "[check]" not in first
    assert "[check]" in second
    assert [each["run"]["kind"] for each in json.loads(mothtrap("ls", "--format", "json"))] == [
        "train",
        "check",
    ]
    (found,) = mothtrap("ls", "--where", "kind == 'check'").splitlines()
    assert found.startswith("tried ")
    assert "tried,check," in mothtrap("ls", "--format", "csv")


def test_reports_name_the_kind(runs: Path) -> None:
    assert "<h1>tried · check · " in mothtrap("report", "tried", "--format", "html")
    assert "## mothtrap: tried (check)" in mothtrap("report", "tried", "--format", "markdown")


def test_the_table_of_the_page_names_and_filters_the_kind(runs: Path) -> None:
    folder = RunsFolder(str(runs))
    rows = folder.page(query="kind == 'check'").rows
    assert [(row.name, row.kind) for row in rows] == [("tried", "check")]
