"""A small run of the storage benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bench import page_cache
from bench import store as bench
from bench.sets import TensorSet

from mothtrap.store.long_writes import FILE_SYSTEMS, file_system

SMALL = {
    "small": TensorSet(count=9, low=80, high=400, steps=12),
    "statistics": TensorSet(count=9, low=52, high=52, steps=12, statistics=True),
}


@pytest.fixture(autouse=True)
def small_and_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SETS", SMALL)

    def measure(job: str, name: str, folder: Path, smdebug: str | None) -> bench.Times:
        return bench.JOBS[job](name, folder)

    monkeypatch.setattr(bench, "measure", measure)


def test_each_set_is_written_and_read_in_each_condition_and_the_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []
    monkeypatch.setattr(bench, "CONDITIONS", {"cold": made.append, "warm": made.append})
    monkeypatch.setattr(sys, "argv", ["store.py", "--rounds=1", f"--folder={tmp_path}"])
    bench.main()
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:]] for line in lines if line[:1] == "|"]
    rows = [row[:3] for row in cells]
    assert [row[2] for row in cells[2:] if row[3] != "-"] == ["cpu", "wall", "blocked"] * 2
    told = ["cpu", "wall", "blocked", "waiting"]
    for condition in ("just written", "cold", "warm"):
        told += [f"{what}, {condition}" for what in ("open", "history", "step")]
    assert sorted(rows[2:]) == sorted([name, "64", what] for name in SMALL for what in told)
    assert len(made) == 2 * 2 * 3
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    if file_system(tmp_path) not in FILE_SYSTEMS:
        pytest.skip("files of this folder may be in memory alone")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(3 * 4096 + 5))
    (tmp_path / "empty").touch()
    return tmp_path


def test_a_folder_is_made_cold_and_warm(on_disk: Path) -> None:
    page_cache.make_cold(on_disk)
    assert page_cache.cached_frac(on_disk) == 0.0
    page_cache.make_warm(on_disk)
    assert page_cache.cached_frac(on_disk) == 1.0
    with (on_disk / "new").open("wb") as file:
        file.write(bytes(4 * 4096))
    page_cache.make_cold(on_disk)
    assert page_cache.cached_frac(on_disk) == 0.0


def test_what_cannot_be_made_cold_or_warm_is_no_measurement(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_cache.make_warm(on_disk)
    monkeypatch.setattr(page_cache, "evict", lambda _: None)
    with pytest.raises(RuntimeError, match="stay in the cache"):
        page_cache.make_cold(on_disk)
    monkeypatch.undo()
    page_cache.make_cold(on_disk)
    monkeypatch.setattr(page_cache, "fetch", lambda _: None)
    with pytest.raises(RuntimeError, match="takes more memory"):
        page_cache.make_warm(on_disk)


def test_memory_that_has_no_room_for_two_steps_is_made_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = TensorSet(count=2, low=16 << 20, high=16 << 20, steps=1)
    monkeypatch.setattr(bench, "SETS", {**SMALL, "wide": wide})
    assert [bench.queue_mb_of(name) for name in ("small", "wide")] == [64, 71]


def test_as_many_steps_of_statistics_wait_as_wake_the_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = TensorSet(count=1000, low=52, high=52, steps=2000, statistics=True)
    monkeypatch.setattr(bench, "SETS", {"long": long})
    waiting = bench.in_flight("long")
    assert waiting * 1000 * 13 * 8 > 32 << 20 >= (waiting - 1) * 1000 * 13 * 8
