"""When segments that travel as objects are sealed."""

from __future__ import annotations

from pathlib import Path

from tests.store.records import record

from mothtrap.store import layout, rolling
from mothtrap.store.rolling import RollClock
from mothtrap.store.sealing import is_sealed
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import read_records


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_something_is_due_when_its_first_row_has_waited() -> None:
    clock = Clock()
    roll = RollClock(2.0, clock)
    clock.now_s += 50
    assert not roll.due
    roll.wrote()
    clock.now_s += 1.9
    roll.wrote()
    assert not roll.due
    clock.now_s += 0.2
    assert roll.due
    roll.sealed()
    assert not roll.due


def test_on_a_disk_nothing_is_ever_due() -> None:
    clock = Clock()
    roll = RollClock(None, clock)
    roll.wrote()
    clock.now_s += 1e6
    assert not roll.due


def test_a_day_makes_thousands_of_segments_and_not_ten_thousands() -> None:
    clock = Clock()
    roll = RollClock(2.0, clock)
    count, last_s = 0, clock.now_s
    gaps = []
    while clock.now_s < 100 + 24 * 3600:
        roll.wrote()
        clock.now_s += 1
        if roll.due:
            roll.sealed()
            gaps.append(clock.now_s - last_s)
            count, last_s = count + 1, clock.now_s
    assert 4000 < count < 6000
    assert gaps[0] == 2
    assert max(gaps) == 2 * rolling.LIMIT


def test_commits_are_sealed_after_what_they_need(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path, roll_bytes=4096)
    rolled = 0
    for step in range(200):
        log.append([record(step)])
        events = layout.segments(tmp_path, "events")
        sealed = [is_sealed(layout.segment_path(tmp_path, "events", n)) for n in events]
        if all(sealed):  # a time at which everything committed can be sent
            rolled += 1
            others = [path for path in tmp_path.iterdir() if not path.name.startswith("events")]
            assert all(is_sealed(path) for path in others)
    assert rolled > 1
    log.close()
    assert len(read_records(tmp_path)) == 200


def test_a_log_that_nothing_comes_to_is_sealed_all_the_same(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path, roll_s=1e-9)
    log.append([record(0)])
    log.append([record(1)])
    log.tend()
    assert layout.segments(tmp_path, "events") == [0, 1]
    assert all(is_sealed(path) for path in tmp_path.iterdir())
    log = WorkerLog(tmp_path, roll_s=1e9)
    log.append([record(2)])
    log.tend()
    assert not is_sealed(layout.segment_path(tmp_path, "events", 2))
