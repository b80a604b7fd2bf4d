"""Every run of an object store has its own folder on this machine, and needs few requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reader.runs import DEAD_PID, closing, info, write_worker
from tests.store.records import record
from tests.store.test_finding_log import finding

from mothtrap.core.errors import RunNotFoundError, StoreRefusedError
from mothtrap.core.records import Scalar
from mothtrap.reader.run import Run, open_run
from mothtrap.store import find_runs, layout, mirror
from mothtrap.store.backends.local import LocalStore
from mothtrap.store.finding_log import FindingLog
from mothtrap.store.objects import Children, ObjectInfo, join, open_store, split


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "FETCH_EVERY_S", 0.0)
    return (tmp_path / "store").as_uri()


def stored(tmp_path: Path, name: str, value: float, *, end: bool = True) -> None:
    """A run in the store with one step, of which `value` is the loss."""
    run = tmp_path / "store" / name
    attempt = layout.create_run(run, info(id=name, pid=DEAD_PID))
    step = record(0, scalars=(Scalar("loss", "main", value),))
    write_worker(attempt, step, *([closing(1)] if end else []))


def loss(run: Run) -> list[float]:
    found: list[float] = run.scalars("loss")[0].values_S.tolist()
    return found


ALIKE = ("lr=1e-3", "lr 1e-3", "lr-1e-3", "实验一", "实验二", "x#1", "x?1", "x%31", "x1", "X1")


def test_runs_whose_names_differ_in_any_character_are_different_runs(
    tmp_path: Path, url: str
) -> None:
    for number, name in enumerate(ALIKE):
        stored(tmp_path, name, float(number))
    opened = [open_run(join(url, name)) for name in ALIKE]
    assert len({run.path for run in opened}) == len(ALIKE)
    assert len({str(run.path).lower() for run in opened}) == len(ALIKE)  # as on the disk of a Mac
    for run in opened:
        run.refresh()
    assert [run.id for run in opened] == list(ALIKE)
    assert [loss(run) for run in opened] == [[float(n)] for n in range(len(ALIKE))]
    listed = [open_run(path) for path in find_runs.list_runs(url)]
    assert sorted(run.id for run in listed) == sorted(ALIKE)


def test_the_latest_run_is_found_whatever_its_name_is(tmp_path: Path, url: str) -> None:
    stored(tmp_path, "50% of it", 1.0)
    assert open_run(None, url).id == "50% of it"


def test_the_url_of_a_run_is_taken_apart_as_it_was_put_together(url: str) -> None:
    for place in (url, "s3://bucket/runs"):
        for name in ALIKE:
            assert split(join(place, name)) == (place, name)


def test_a_run_that_is_removed_while_runs_are_listed_is_not_in_the_list(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, "x", 1.0)
    gone = join(url, "gone")
    monkeypatch.setattr(find_runs, "list_remote", lambda place: [gone, join(place, "x")])
    assert [path.name for path in find_runs.list_runs(url)] == ["x"]
    with pytest.raises(RunNotFoundError, match="no run found at"):
        open_run(gone)


def test_a_url_of_no_run_is_told_what_there_is(tmp_path: Path, url: str) -> None:
    stored(tmp_path, "digits-1", 1.0)
    with pytest.raises(RunNotFoundError, match="it is a folder of digits-1; name a run in it"):
        open_run(url)
    with pytest.raises(RunNotFoundError, match=r"did you mean 'digits-1'\?\); `mothtrap ls "):
        open_run(join(url, "digit-1"))


def test_a_mirror_that_says_nothing_sensible_of_itself_is_one_all_the_same(
    tmp_path: Path, url: str
) -> None:
    stored(tmp_path, "x", 1.0)
    (open_run(join(url, "x")).path / "remote.json").write_text("{")
    assert loss(open_run(join(url, "x"))) == [1.0]


def test_objects_lie_where_their_url_says(tmp_path: Path, url: str) -> None:
    for name in ALIKE:
        open_store(join(url, name)).put_if_absent("key", name.encode())
    found = {path.parent.name: path.read_text() for path in (tmp_path / "store").glob("*/key")}
    assert found == {name: name for name in ALIKE}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the folders that are listed from now on."""
    asked: list[str] = []
    children, listed = LocalStore.children, LocalStore.list

    def count_children(self: LocalStore, folder: str) -> Children:
        asked.append(folder)
        return children(self, folder)

    def count_listed(self: LocalStore, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        asked.append(folder)
        return listed(self, folder, after)

    monkeypatch.setattr(LocalStore, "children", count_children)
    monkeypatch.setattr(LocalStore, "list", count_listed)
    return asked


@pytest.fixture
def two_attempts(tmp_path: Path) -> Path:
    """Store a run of two workers and two monitors, started twice; return its last attempt."""
    run = tmp_path / "store" / "x"
    first = layout.create_run(run, info(id="x", pid=DEAD_PID))
    second = layout.create_attempt(run, info(id="x", pid=DEAD_PID, attempt=2))
    for attempt in (first, second):
        for rank in range(2):
            write_worker(attempt, record(0))
            findings = FindingLog(layout.monitor_folder(attempt, rank))
            findings.append([finding()])
            findings.close()
    return second


def test_a_look_at_a_run_lists_each_folder_of_its_last_attempt_once(
    two_attempts: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(join(url, "x"))
    asked = counted(monkeypatch)
    for _ in range(2):
        asked.clear()
        run.refresh()
        assert asked == ["", "1", "2", *asked[3:]]
        assert sorted(asked[3:]) == ["2/m0", "2/m1", "2/w0", "2/w1"]


def test_what_comes_late_to_an_earlier_attempt_is_found_later(
    two_attempts: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(join(url, "x"))
    assert run.workers == (0, 1)
    write_worker(two_attempts.parent / "1", record(0))
    run.refresh()
    assert run.workers == (0, 1)
    monkeypatch.setattr(mirror, "EARLIER_EVERY_S", 0.0)
    run.refresh()
    assert run.workers == (0, 1, 2)


def test_what_an_attempt_still_had_to_send_when_the_next_began_is_found_at_once(
    tmp_path: Path, url: str
) -> None:
    path = tmp_path / "store" / "x"
    first = layout.create_run(path, info(id="x", pid=DEAD_PID))
    write_worker(first, record(0))
    run = open_run(join(url, "x"))
    layout.create_attempt(path, info(id="x", pid=DEAD_PID, attempt=2))
    run.refresh()
    write_worker(first, record(0))
    run.refresh()
    assert (run.attempts, run.workers) == (2, (0, 1))


def test_the_more_a_look_takes_the_longer_is_the_pause_after_it(
    two_attempts: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(mirror.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(mirror, "FETCH_EVERY_S", 1.0)
    found = mirror.open_mirror(join(url, "x"))
    for lists_a_look, pause_s in ((100, 1.0), (3, 7 / 3)):
        monkeypatch.setattr(mirror, "LISTS_A_LOOK", lists_a_look)
        for wait_s in (40.0, 9.0):  # the first of these polls also reads the earlier attempt
            clock[0] += wait_s
            found.refresh()
        asked = counted(monkeypatch)
        clock[0] += pause_s - 0.01
        found.refresh()
        assert asked == []
        clock[0] += 0.02
        found.refresh()
        assert len(asked) == 7


def test_a_run_that_is_open_is_never_continued_by_another_of_its_name(
    tmp_path: Path, url: str
) -> None:
    stored(tmp_path, "x", 1.0, end=False)
    before = open_run(join(url, "x"))
    (tmp_path / "store" / "x").rename(tmp_path / "removed")
    stored(tmp_path, "x", 2.0)
    after = open_run(join(url, "x"))
    with pytest.raises(StoreRefusedError, match=r"another run has replaced .*x; open it again"):
        before.refresh()
    assert (loss(before), loss(after)) == ([1.0], [2.0])
