"""`mothtrap diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run

from mothtrap.cli import main


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two equal runs, a different run, and a run without a step."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    store_run(folder / "before", created_s=1.0)
    store_run(folder / "after", created_s=2.0)
    store_run(folder / "other", created_s=3.0, first_loss=2.0)
    store_run(folder / "empty", created_s=4.0, steps=0)
    return folder


def mothtrap(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_equal_runs_exit_with_0(runs: Path) -> None:
    found = mothtrap("diff", "before", "after")
    assert found.exit_code == 0
    assert "No difference in 12 steps" in found.output


def test_a_difference_exits_with_1_and_is_named(runs: Path) -> None:
    found = mothtrap("diff", "before", "other")
    assert found.exit_code == 1
    assert "First difference: step 0, loss" in found.output
    assert "Likely cause: code" in found.output


def test_json_is_for_programs(runs: Path) -> None:
    found = mothtrap("diff", "before", "other", "--format", "json")
    record = json.loads(found.output)
    assert record["same"] is False
    assert record["departure"]["phase"] == "loss"
    assert record["cause"]["kind"] == "code"
    assert [record["first"]["run"], record["second"]["run"]] == ["before", "other"]


def test_what_is_within_the_tolerance_is_the_same(runs: Path) -> None:
    found = mothtrap("diff", "before", "other", "--rtol", "0.9")
    assert found.exit_code == 0
    assert "No difference beyond the tolerance" in found.output


def test_where_all_is_ignored_nothing_is_compared(runs: Path) -> None:
    assert mothtrap("diff", "before", "other", "--ignore", "loss:*").exit_code == 2


def test_nothing_in_common_exits_with_2(runs: Path) -> None:
    found = mothtrap("diff", "before", "empty")
    assert found.exit_code == 2
    assert "no comparable data in common" in found.output


def test_a_run_that_is_not_there_exits_with_2(runs: Path) -> None:
    found = mothtrap("diff", "before", "gone")
    assert found.exit_code == 2
    assert "no run found at 'gone'" in found.output


def test_a_damaged_ledger_is_said_and_the_rest_compared(runs: Path) -> None:
    (runs / "after" / "1" / "w0" / "ledger.json").write_text('{"facts": {')
    found = mothtrap("diff", "before", "after")
    assert found.exit_code == 0
    assert "note: B is damaged: " in found.output
    assert "ledger.json cannot be read" in found.output
