"""Files fetched from a store appear whole, in order, and leave nothing else behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mothtrap.core.errors import StoreError
from mothtrap.store import fetching
from mothtrap.store.backends.local import LocalStore
from mothtrap.store.fetching import bring
from mothtrap.store.objects import ObjectInfo


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    found = LocalStore(tmp_path / "store")
    for folder in ("w0", "w1", "w2"):
        for number in range(6):
            found.put_if_absent(f"{folder}/a-{number}", f"{folder} {number}".encode())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "here"
    found.mkdir()
    return found


def lists(store: LocalStore) -> list[list[ObjectInfo]]:
    return [list(store.list(folder)) for folder in ("w0", "w1", "w2")]


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_objects_become_files_of_their_names_and_ages(store: LocalStore, folder: Path) -> None:
    bring(store, lists(store), folder)
    for info in (info for infos in lists(store) for info in infos):
        path = folder / info.key
        assert path.read_text() == f"{info.key[:2]} {info.key[-1]}"
        assert path.stat().st_mtime == info.modified_s
    assert len(names(folder)) == 3 + 3 * 6


def test_with_nothing_to_fetch_nothing_is_made(store: LocalStore, folder: Path) -> None:
    bring(store, [[], []], folder)
    assert names(folder) == []


def broken(monkeypatch: pytest.MonkeyPatch, fails: Callable[[str], bool], error: Exception) -> None:
    fetch = LocalStore.fetch

    def fail(self: LocalStore, key: str, path: Path) -> None:
        path.write_bytes(b"a part of it")
        if fails(key):
            raise error
        fetch(self, key, path)

    monkeypatch.setattr(LocalStore, "fetch", fail)


def test_where_one_fails_its_list_ends_there_and_the_others_go_on(
    store: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, lambda key: key == "w1/a-2", StoreError("a hiccup"))
    with pytest.raises(StoreError, match="a hiccup"):
        bring(store, lists(store), folder)
    found = names(folder)
    assert [name for name in found if name.startswith("w1")] == ["w1", "w1/a-0", "w1/a-1"]
    assert len(found) == (1 + 6) + (1 + 2) + (1 + 6)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_fetching_leaves_no_drafts(
    store: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    broken(monkeypatch, lambda key: key == "w0/a-3", error)
    with pytest.raises(type(error)):
        bring(store, lists(store), folder)
    assert names(folder) == ["w0", "w0/a-0", "w0/a-1", "w0/a-2"]


def test_a_few_are_fetched_at_a_time_however_many_folders_there_are(
    store: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "AT_ONCE", 3)
    fetch, lock = LocalStore.fetch, threading.Lock()
    now, most = 0, 0

    def counted(self: LocalStore, key: str, path: Path) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        fetch(self, key, path)
        with lock:
            now -= 1

    monkeypatch.setattr(LocalStore, "fetch", counted)
    bring(store, lists(store), folder)
    assert 1 <= most <= 3
