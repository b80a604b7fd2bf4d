"""What measures the storing measures it: the bench in small."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bench import store as bench
from bench.sets import TensorSet

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


def test_each_set_is_written_and_read_and_the_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["store.py", "--rounds=1", f"--folder={tmp_path}"])
    bench.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines if line[:1] == "|"]
    told = ("cpu", "wall", "blocked", "waiting", "open", "history", "step")
    assert sorted(rows[2:]) == sorted([name, "64", what] for name in SMALL for what in told)


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
