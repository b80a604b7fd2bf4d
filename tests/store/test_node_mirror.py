"""A run whose nodes send merged logs, and a reader that lists one folder per node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reader.runs import info
from tests.store.records import record

from mothtrap.core.errors import StoreError
from mothtrap.core.runs import RunEnd
from mothtrap.store import layout
from mothtrap.store.backends.local import LocalStore
from mothtrap.store.manifests import Node
from mothtrap.store.mirror import open_mirror
from mothtrap.store.node_log import NodeLog, NodeReader, WorkerStep
from mothtrap.store.objects import Children, ObjectInfo
from mothtrap.store.upload_queue import UploadQueue
from mothtrap.store.worker_log import WorkerLog

INFO = info(pid=1, created_s=1.0)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    return (tmp_path / "store" / "x").as_uri()


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the folders that are listed in the store."""
    asked: list[str] = []
    listed, children = LocalStore.list, LocalStore.children

    def list_(self: LocalStore, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        asked.append(folder)
        return listed(self, folder, after)

    def children_(self: LocalStore, folder: str) -> Children:
        asked.append(folder)
        return children(self, folder)

    monkeypatch.setattr(LocalStore, "list", list_)
    monkeypatch.setattr(LocalStore, "children", children_)
    return asked


class Launcher:
    """A launcher of a node with two workers."""

    def __init__(self, place: Path, url: str, number: int, nodes: int = 2) -> None:
        self.node = Node(f"{number:08x}", world_size=2 * nodes)
        self.attempt = layout.create_run(place / f"spool{number}" / "x", INFO)
        self.queue = UploadQueue(self.attempt.parent, url, node=self.node)
        self._log = NodeLog(layout.node_folder(self.attempt, self.node.name))
        self._workers = {rank: self._begin(rank) for rank in (2 * number, 2 * number + 1)}
        self.node.ranks = set(self._workers)

    def _begin(self, rank: int) -> WorkerLog:
        return WorkerLog(layout.claim_worker(self.attempt, rank)[1])

    def train(self, step: int) -> None:
        """Make a step on each worker, and send it."""
        for log in self._workers.values():
            log.append([record(step)])
            log.close()
        self._log.append([WorkerStep(rank, step, float(step)) for rank in self._workers], [], 1.0)
        self._log.close()
        self.queue.send(final=False)


def steps(mirror: Path, number: int) -> list[tuple[int, int]]:
    rows = NodeReader(layout.node_folder(mirror / "1", f"{number:08x}")).poll()
    return [(row.rank, row.step) for row in rows.steps]


def test_only_merged_logs_and_detailed_workers_are_sent(tmp_path: Path, url: str) -> None:
    launcher = Launcher(tmp_path, url, 0)
    launcher.train(0)
    top = tmp_path / "store" / "x" / "1"
    assert layout.workers(top) == []
    assert layout.nodes(top) == ["00000000"]
    assert launcher.queue.left() == []
    assert launcher.queue.keeps_details
    launcher.node.detailed.add(1)
    launcher.train(1)
    assert layout.workers(top) == [1]
    assert layout.segments(top / "w1", "events") == [0, 1]


def test_an_idle_look_lists_one_folder_per_node(tmp_path: Path, url: str, lists: list[str]) -> None:
    launchers = [Launcher(tmp_path, url, number) for number in range(2)]
    for launcher in launchers:
        launcher.train(0)
    mirror = open_mirror(url)
    lists.clear()
    mirror.sync()
    assert sorted(lists) == ["1/n00000000/sent", "1/n00000001/sent"]
    launchers[1].train(1)
    mirror.sync()
    assert steps(mirror.folder, 0) == [(0, 0), (1, 0)]
    assert steps(mirror.folder, 1) == [(2, 0), (3, 0), (2, 1), (3, 1)]


def test_a_late_node_is_found(tmp_path: Path, url: str) -> None:
    Launcher(tmp_path, url, 0).train(0)
    mirror = open_mirror(url)
    Launcher(tmp_path, url, 1).train(0)
    mirror.sync()
    assert steps(mirror.folder, 1) == [(2, 0), (3, 0)]


def test_details_that_are_sent_later_are_fetched_by_manifest(tmp_path: Path, url: str) -> None:
    launchers = [Launcher(tmp_path, url, number) for number in range(2)]
    for launcher in launchers:
        launcher.train(0)
    mirror = open_mirror(url)
    launchers[0].node.detailed.add(0)
    launchers[0].train(1)
    mirror.sync()
    assert layout.segments(mirror.folder / "1" / "w0", "events") == [0, 1]


def test_the_next_reader_goes_on_where_the_last_one_stopped(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Launcher(tmp_path, url, 0, nodes=1)
    for step in range(3):
        launcher.train(step)
    open_mirror(url)
    launcher.train(3)
    fetched: list[str] = []
    get = LocalStore.get

    def noted(self: LocalStore, key: str, start: int = 0, size: int | None = None) -> bytes:
        fetched.append(key)
        return get(self, key, start, size)

    monkeypatch.setattr(LocalStore, "get", noted)
    mirror = open_mirror(url)
    manifests = [key for key in fetched if "/sent/" in key]
    assert manifests == ["1/n00000000/sent/00000003.json"]
    assert [step for _, step in steps(mirror.folder, 0)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_manifest_that_could_not_be_sent_is_sent_later(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Launcher(tmp_path, url, 0, nodes=1)
    put = LocalStore.put_if_absent

    def refuse(self: LocalStore, key: str, data: bytes | Path) -> None:
        if "/sent/" in key:
            raise StoreError("busy")
        put(self, key, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "put_if_absent", refuse)
        with pytest.raises(StoreError):
            launcher.train(0)
    assert steps(open_mirror(url).folder, 0) == []
    launcher.train(1)
    assert [step for _, step in steps(open_mirror(url).folder, 0)] == [0, 0, 1, 1]


def test_the_end_is_seen_after_the_last_steps(tmp_path: Path, url: str) -> None:
    launcher = Launcher(tmp_path, url, 0, nodes=1)
    launcher.train(0)
    mirror = open_mirror(url)
    layout.write_end(launcher.attempt, RunEnd(exit_code=0, ended_s=9.0))
    launcher.train(1)
    launcher.queue.send(final=True)
    mirror.sync()
    assert layout.read_end(mirror.folder / "1") is not None
    assert [step for _, step in steps(mirror.folder, 0)] == [0, 0, 1, 1]


def test_a_manifest_cannot_name_a_file_outside_of_the_mirror(tmp_path: Path, url: str) -> None:
    launcher = Launcher(tmp_path, url, 0, nodes=1)
    launcher.queue._news.append(("../../evil.json", 3))
    launcher.train(0)
    mirror = open_mirror(url)
    assert not list(tmp_path.rglob("evil.json"))
    assert steps(mirror.folder, 0)
