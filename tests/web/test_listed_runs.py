"""`mothtrap ls` reads a run once; whatever changes in its files, the next list shows it."""

from __future__ import annotations

import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.web.made_runs import MadeRun, dead_pid, exploding

from mothtrap.core.jsonable import text
from mothtrap.store import run_fingerprint
from mothtrap.store.labels import put_label
from mothtrap.store.remote import cache_folder
from mothtrap.web import row_reading
from mothtrap.web.listed_runs import listed_runs
from mothtrap.web.row_cache import ListedRun


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a finished run."""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run_fingerprint, "SETTLED_S", -1.0)
    run = MadeRun(tmp_path / "runs" / "ended")
    run.train([1.0, 0.5, math.nan])
    run.find(exploding(1))
    run.end()
    return tmp_path / "runs"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs that were opened."""
    names: list[str] = []
    open_run = row_reading.open_run

    def noted(path: Path) -> object:
        names.append(path.name)
        return open_run(path)

    monkeypatch.setattr(row_reading, "open_run", noted)
    return names


def only(runs: Path) -> ListedRun:
    (listed,) = listed_runs(str(runs))
    return listed


def test_a_run_is_opened_once(runs: Path, opened: list[str]) -> None:
    first = only(runs)
    assert (first.errors, first.codes, first.row.steps) == (1, ("GRD101",), 3)
    assert math.isnan(first.row.metrics["loss"])
    again = only(runs)
    assert opened == ["ended"]
    assert text(again) == text(first)


def test_every_file_of_a_run_decides(runs: Path, opened: list[str]) -> None:
    only(runs)
    files = sorted(path for path in (runs / "ended").rglob("*") if path.is_file())
    assert len(files) > 4
    for number, file in enumerate(files):
        times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        os.utime(file, ns=times)
        only(runs)
        assert len(opened) == number + 2, f"{file} was not seen"
    assert only(runs).damage


def test_labels_are_seen_at_once(runs: Path) -> None:
    assert only(runs).row.tags == ()
    put_label(runs / "ended", "tag", "best")
    assert only(runs).row.tags == ("best",)


def test_a_run_that_changed_a_moment_ago_is_not_kept(
    runs: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_fingerprint, "SETTLED_S", 3600.0)
    only(runs)
    only(runs)
    assert len(opened) == 2


def test_a_run_without_an_end_is_kept_after_a_day(
    runs: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, pid in {"live": os.getpid(), "crashed": dead_pid()}.items():
        run = MadeRun(runs / name, pid=pid)
        run.train([1.0])
        run.close()
    for _ in range(2):
        states = {each.row.name: each.row.state for each in listed_runs(str(runs))}
        assert states == {"live": "running", "crashed": "crashed", "ended": "finished"}
    assert (opened.count("live"), opened.count("crashed")) == (2, 2)
    monkeypatch.setattr(row_reading, "ABANDONED_S", -1.0)
    for _ in range(2):
        listed_runs(str(runs))
    assert (opened.count("live"), opened.count("crashed")) == (4, 3)


def test_a_cache_that_is_damaged_is_made_again(runs: Path, opened: list[str]) -> None:
    first = text(only(runs))
    (cache,) = (cache_folder() / "ui").glob("*.rows")
    cache.write_bytes(b"not a database, but as long as one" * 100)
    for _ in range(3):
        assert text(only(runs)) == first
    assert len(opened) <= 3
    before = len(opened)
    with closing(sqlite3.connect(cache)) as database, database:
        (row,) = database.execute("select row from rows").fetchone()
        database.execute("update rows set row = ?", (row.replace(b'"steps":3', b'"steps":4'),))
    assert text(only(runs)) == first, "a row with a wrong digit was believed"
    assert len(opened) == before + 1


def test_a_place_and_a_cache_that_cannot_be_written_work(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = text(only(runs))
    runs.chmod(0o500)
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "file"))
    assert text(only(runs)) == first
    runs.chmod(0o700)


def test_runs_that_are_removed_leave_the_cache(runs: Path) -> None:
    only(runs)
    (runs / "ended").rename(runs.parent / "elsewhere")
    assert listed_runs(str(runs)) == []
    (cache,) = (cache_folder() / "ui").glob("*.rows")
    with closing(sqlite3.connect(cache)) as database:
        assert database.execute("select count(*) from rows").fetchone() == (0,)


def test_a_path_is_that_of_the_caller(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(runs).run["path"] == str(runs / "ended")
    monkeypatch.chdir(runs.parent)
    assert only(Path("runs")).run["path"] == "runs/ended"
