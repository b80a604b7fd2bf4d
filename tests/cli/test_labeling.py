"""Tags, notes, groups, archives and removal of runs; the lists that they choose."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run

import mothtrap
from mothtrap.cli import main
from mothtrap.core.findings import Finding, Severity, fingerprint

FOUND = Finding(
    code="GRD101",
    name="exploding_gradient",
    severity=Severity.ERROR,
    step=3,
    detected_step=4,
    message="norm 1e9",
    fingerprint=fingerprint("GRD101", (), "train"),
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    store_run(folder / "first", created_s=1e9, first_loss=8.0)
    store_run(folder / "second", created_s=2e9, findings=(FOUND,), steps=6)
    return folder


def ask(runs: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--runs-dir", str(runs)])


def listed(runs: Path, *words: str) -> list[str]:
    found = ask(runs, "ls", "--format", "json", *words)
    assert found.exit_code == 0, found.output
    return [row["run"]["id"] for row in json.loads(found.stdout)]


def test_labels_are_seen_by_every_list(runs: Path) -> None:
    assert ask(runs, "tag", "first", "baseline", "=1+1").output == (
        "first: tagged baseline\nfirst: tagged =1+1\n"
    )
    assert ask(runs, "tag", "first", "=1+1", "--remove").exit_code == 0
    assert ask(runs, "note", "first", "warm-up was too short").exit_code == 0
    assert ask(runs, "group", "sweep", "first", "second").exit_code == 0
    assert listed(runs, "--where", "baseline") == ["first"]
    assert listed(runs, "--where", "group == 'sweep' and GRD101") == ["second"]
    assert listed(runs, "--where", "loss < 0.2 and steps < 10") == ["second"]
    assert "[baseline] Nothing wrong" in ask(runs, "ls").output
    shown = ask(runs, "show", "first").output
    assert "tags        baseline" in shown
    assert "warm-up was too short" in shown
    rows = list(csv.DictReader(io.StringIO(ask(runs, "ls", "--format", "csv").output)))
    assert [(row["run"], row["tags"], row["findings"]) for row in rows] == [
        ("first", "baseline", ""),
        ("second", "", "GRD101"),
    ]
    found = ask(runs, "ls", "--where", "no_such > 3")
    assert (found.exit_code, "no run has 'no_such'" in found.stderr) == (2, True)


def test_archived_runs_are_left_out_and_removed_ones_are_gone(runs: Path) -> None:
    ask(runs, "archive", "second")
    assert listed(runs) == ["first"]
    assert listed(runs, "--all") == ["first", "second"]
    ask(runs, "archive", "second", "--restore")
    assert listed(runs) == ["first", "second"]
    assert ask(runs, "rm", "first").exit_code == 1  # no answer
    assert listed(runs) == ["first", "second"]
    assert ask(runs, "rm", "first", "-y").exit_code == 0
    assert listed(runs) == ["second"]
    found = ask(runs, "rm", "first", "-y")
    assert (found.exit_code, "no run found" in found.stderr) == (2, True)


def test_runs_are_a_table_in_python(runs: Path) -> None:
    mothtrap.open_run("first", runs).label("tag", "paper")
    found = mothtrap.runs(runs)
    assert [run.id for run in found] == ["second", "first"]
    assert [run.id for run in found.where("paper")] == ["first"]
    assert [run.id for run in mothtrap.runs(runs, "not paper")] == ["second"]
    table = found.table()
    assert table.column("loss").to_pylist() == pytest.approx([1 / 6, 8 / 12])
    assert table.column("tags").to_pylist() == ["", "paper"]
    assert "<table>" in found._repr_html_()
    assert found[:1].to_csv().splitlines()[0].startswith("run,kind,started,state")
