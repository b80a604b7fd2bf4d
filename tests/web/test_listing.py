"""The list of runs: finished runs are read once for all servers, and ten thousand fit on a page."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.web.made_runs import MadeRun, exploding
from tests.web.test_api import unpacked

from mothtrap.store import run_fingerprint
from mothtrap.store.labels import put_label
from mothtrap.store.remote import cache_folder
from mothtrap.web import comparison, listing, row_reading
from mothtrap.web.buckets import Buckets
from mothtrap.web.curve_cache import CurveCache, FoundCurve
from mothtrap.web.listing import Page, RunsFolder
from mothtrap.web.row_cache import ListedRun

MANY = 10_000


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a finished run."""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run_fingerprint, "SETTLED_S", -1.0)
    run = MadeRun(tmp_path / "runs" / "ended")
    run.train([1.0, 0.5, 0.2])
    run.find(exploding(1))
    run.end()
    return tmp_path / "runs"


def read(folder: RunsFolder, query: str = "") -> Page:
    """A page whose runs have all been read."""
    until_s = time.monotonic() + 60
    while (page := folder.page(query=query)).pending:
        assert time.monotonic() < until_s
    return page


def until_cached(runs: Path) -> None:
    """Wait until a new server knows all rows at once."""
    until_s = time.monotonic() + 60
    while any(row.pending for row in RunsFolder(str(runs)).page().rows):
        assert time.monotonic() < until_s


def test_another_server_opens_no_run_that_has_ended(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = read(RunsFolder(str(runs))).rows
    assert (row.severity, row.steps) == ("error", 3)
    until_cached(runs)
    with monkeypatch.context() as patch:
        patch.delattr(row_reading, "open_run")
        assert RunsFolder(str(runs)).page().rows == [row]
    shutil.rmtree(runs / "ended" / "1" / "w0")  # which does not touch its end
    assert read(RunsFolder(str(runs))).rows[0].steps == 0


def test_a_filter_compares_the_rows_of_the_cache_with_the_files(runs: Path) -> None:
    read(RunsFolder(str(runs)))
    until_cached(runs)
    assert read(RunsFolder(str(runs)), "steps > 2").matching == 1
    shutil.rmtree(runs / "ended" / "1" / "w0")
    assert read(RunsFolder(str(runs)), "steps > 2").matching == 0


def test_a_run_that_goes_on_is_read_again(runs: Path) -> None:
    live = MadeRun(runs / "live")
    live.train([1.0])
    assert {row.name: row.steps for row in read(RunsFolder(str(runs))).rows}["live"] == 1
    live.train([1.0])
    live.close()
    assert {row.name: row.steps for row in read(RunsFolder(str(runs))).rows}["live"] == 2


def test_a_row_that_is_older_than_its_run_is_pending(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunsFolder(str(runs))
    read(folder)
    monkeypatch.setattr(listing, "LOOK_S", 0.0)
    put_label(runs / "ended", "tag", "baseline")
    assert [row.tags for row in read(folder).rows] == [("baseline",)]


def test_a_run_that_is_labelled_while_it_is_read_is_read_again(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, reads = listing.read_listed, []

    def read_slowly(name: str, *others: Any) -> ListedRun:
        listed = plain(name, *others)
        if not reads:
            put_label(runs / name, "tag", "baseline")
        reads.append(name)
        return listed

    monkeypatch.setattr(listing, "read_listed", read_slowly)
    assert [row.tags for row in read(RunsFolder(str(runs))).rows] == [("baseline",)]
    assert len(reads) == 2


def test_a_cache_that_is_damaged_or_refused_costs_a_read(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(RunsFolder(str(runs))).rows
    for file in (cache_folder() / "ui").glob("*.rows"):
        file.write_bytes(b"not a database, but as long as one" * 100)
    assert read(RunsFolder(str(runs))).rows == first
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "file"))
    assert read(RunsFolder(str(runs))).rows == first


def test_runs_that_come_and_go_are_seen(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "LIST_EVERY_S", -1.0)
    folder = RunsFolder(str(runs))
    os.utime(runs, (1, 1))  # nothing has changed for long
    assert folder.page().total == 1
    (runs / "next" / "1").mkdir(parents=True)
    assert folder.page().total == 1
    shutil.copyfile(runs / "ended" / "1" / "run.json", runs / "next" / "1" / "run.json")
    os.utime(runs, (1, 1))  # the folder of the run was known, its description was not
    assert folder.page().total == 2
    shutil.rmtree(runs / "ended")
    assert [row.name for row in folder.page().rows] == ["next"]


def test_ten_thousand_runs_are_a_page_and_a_filter(runs: Path) -> None:
    for number in range(MANY - 1):
        attempt = runs / f"r{number}" / "1"
        os.makedirs(attempt)
        for name in ("run.json", "end.json"):
            os.link(runs / "ended" / "1" / name, attempt / name)
    folder = RunsFolder(str(runs))
    page = folder.page()
    assert (page.total, len(page.rows)) == (MANY, 200)
    found = folder.page(query="r77")
    assert found.matching == 111
    assert found.pending > 0  # says that others are not read so far
    again_s = time.thread_time()
    folder.page()
    folder.state()
    assert time.thread_time() - again_s < 1.0
    folder.close()
    fresh_s = time.thread_time()
    fresh = RunsFolder(str(runs))
    assert fresh.page().total == MANY
    assert time.thread_time() - fresh_s < 3.0
    fresh.close()


def test_options_that_go_with_findings(runs: Path) -> None:
    for number in range(3):
        run = MadeRun(runs / f"r{number}", command=("python", "train.py", "--lr", str(number % 2)))
        run.train([1.0])
        if number % 2:
            run.find(exploding(1))
        run.end()
    folder = RunsFolder(str(runs))
    read(folder)
    rows = {row.value: row for row in folder.associations()}
    assert rows.keys() == {"0.1", "1"}, "no run with 0 has a finding"
    assert (rows["1"].option, rows["1"].code) == ("lr", "GRD101")
    assert (rows["1"].found, rows["1"].runs) == (1, 1)
    assert (rows["1"].found_elsewhere, rows["1"].runs_elsewhere) == (1, 3), "the first run"
    assert folder.associations("r0") == (), "one run"


def test_curves_of_runs_that_have_ended_are_drawn_without_opening_them(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunsFolder(str(runs))
    read(folder)
    until_cached(runs)
    first = comparison.answer(RunsFolder(str(runs)), ["ended"], "train/loss", most=300)
    monkeypatch.setattr(comparison, "_kept", OrderedDict())
    with monkeypatch.context() as patch:
        patch.delattr(comparison, "open_run")
        assert comparison.answer(RunsFolder(str(runs)), ["ended"], "train/loss", most=300) == first
    _, (curve,) = unpacked(first)
    assert curve["last"].tolist() == [1.0, 0.5, np.float32(0.2)]
    assert curve["parameters"] == {"lr": "0.1"}
    shutil.rmtree(runs / "ended" / "1" / "w0")  # its curve is gone, too
    _, (curve,) = unpacked(comparison.answer(folder, ["ended"], "train/loss", most=300))
    assert curve["count"] == 0


def test_a_damaged_curve_is_read_again(runs: Path) -> None:
    cache = CurveCache(str(runs))
    nothing = Buckets(*(np.empty(0),) * 4, np.empty(0, np.uint8), 1)
    found = FoundCurve(nothing, "none", {})
    cache.write("train/loss 300", [("ended", "digest", found)])
    assert cache.read(["ended"], "train/loss 300")["ended"][1].note == "none"
    file = next((cache_folder() / "ui").glob("*.curves"))
    with sqlite3.connect(file) as database:
        database.execute("update curves set curve = ?", (b"12345678damage",))
    assert cache.read(["ended"], "train/loss 300") == {}
