from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mothtrap.core.protocols import Store
from mothtrap.store.local import LocalStore


def test_objects_are_written_once_and_read_in_ranges(tmp_path: Path) -> None:
    store: Store = LocalStore(tmp_path)
    assert store.put_if_absent("1/w0/a.arrow", b"0123456789")
    assert not store.put_if_absent("1/w0/a.arrow", b"other")
    assert store.get("1/w0/a.arrow") == b"0123456789"
    assert store.get("1/w0/a.arrow", start=8) == b"89"
    assert store.get("1/w0/a.arrow", start=2, length=3) == b"234"
    assert store.get("1/w0/a.arrow", start=99) == b""


def test_keys_are_listed_ascending_by_prefix(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for key in ("b/2", "a/1", "b/10", "bb"):
        store.put_if_absent(key, b"")
    assert list(store.list()) == ["a/1", "b/10", "b/2", "bb"]
    assert list(store.list("b/")) == ["b/10", "b/2"]


def test_a_deleted_object_is_gone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("a", b"x")
    store.delete("a")
    store.delete("a")
    with pytest.raises(KeyError, match="no object 'a'"):
        store.get("a")
    with pytest.raises(ValueError, match="expected 0 or more"):
        store.get("a", start=-1)


@pytest.mark.parametrize("key", ["", "/x", "../x", "a/../../x", "a//b", "./a", "a\\b", "a\0", "a/"])
def test_keys_cannot_leave_the_root(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="cannot be a key"):
        LocalStore(tmp_path / "root").put_if_absent(key, b"x")


def test_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="leads out of"):
        LocalStore(tmp_path / "root").put_if_absent("out/x", b"x")


def test_of_many_writers_one_wins_whole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    texts = [bytes([i]) * 10_000 for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(lambda text: store.put_if_absent("k", text), texts))
    assert wins.count(True) == 1
    assert store.get("k") == texts[wins.index(True)]
    assert list(store.list()) == ["k"]
