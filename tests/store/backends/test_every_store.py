"""Contract of every object store, tested for each with its own bytes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mothtrap.core.errors import ConfigError, ObjectExistsError, ObjectNotFoundError
from mothtrap.store.objects import Store, is_url, join, open_store


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return open_store((tmp_path / "a b").as_uri())
    url: str = request.getfixturevalue("s3_url")
    return open_store(url)


def test_an_object_comes_back_whole_and_in_part(store: Store) -> None:
    store.put_if_absent("x/1/run.json", b"0123456789")
    assert store.get("x/1/run.json") == b"0123456789"
    assert store.get("x/1/run.json", 3, 4) == b"3456"
    assert store.get("x/1/run.json", 8, 100) == b"89"
    assert store.get("x/1/run.json", 7) == b"789"
    assert store.get("x/1/run.json", 7, 0) == b""


def test_a_file_and_nothing_at_all_are_written_too(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x00\xff" * 1000)
    store.put_if_absent("file", tmp_path / "file")
    store.put_if_absent("empty", b"")
    assert store.get("file") == b"\x00\xff" * 1000
    assert store.get("empty") == b""


def test_an_object_goes_into_a_file(store: Store, tmp_path: Path) -> None:
    large = bytes(range(256)) * (5 << 12)
    for key, data in {"large": large, "empty": b""}.items():
        store.put_if_absent(key, data)
        store.fetch(key, tmp_path / key)
        assert (tmp_path / key).read_bytes() == data
    with pytest.raises(ObjectNotFoundError):
        store.fetch("gone", tmp_path / "gone")


def test_what_exists_is_left_as_it_is(store: Store) -> None:
    store.put_if_absent("x", b"first")
    with pytest.raises(ObjectExistsError, match="exists"):
        store.put_if_absent("x", b"second")
    assert store.get("x") == b"first"


def test_of_many_that_write_at_once_one_wins(store: Store) -> None:
    lost: list[int] = []

    def write(number: int) -> None:
        try:
            store.put_if_absent("x", b"%d" % number)
        except ObjectExistsError:
            lost.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = set(range(8)) - set(lost)
    assert store.get("x") == b"%d" % winner


def test_keys_come_in_order_and_those_seen_do_not_come_again(store: Store) -> None:
    for key in ("w0/b-2", "w0/a-1", "w0/b-1", "w00/a-1", "w0/c/d"):
        store.put_if_absent(key, b"1234")
    assert [info.key for info in store.list("w0")] == ["w0/a-1", "w0/b-1", "w0/b-2", "w0/c/d"]
    assert [info.key for info in store.list("w0", "w0/b-1")] == ["w0/b-2", "w0/c/d"]
    assert next(info.key for info in store.list("w0", "w0/b-")) == "w0/b-1"
    assert list(store.list("absent")) == []
    (first, *_) = store.list("w0")
    assert first.size == 4
    assert first.modified_s > 1e9


def test_more_keys_than_fit_a_page_all_come(store: Store) -> None:
    keys = [f"w0/events-{number:08d}.arrow" for number in range(1100)]
    for key in keys:
        store.put_if_absent(key, b"x")
    assert [info.key for info in store.list("w0")] == keys


def test_a_folder_shows_what_lies_directly_in_it(store: Store) -> None:
    for key in ("1/run.json", "1/w0/a", "1/w1/a", "1/end.json", "2/run.json"):
        store.put_if_absent(key, b"{}")
    top, first = store.children(""), store.children("1")
    assert (top.folders, top.objects) == (("1", "2"), ())
    assert first.folders == ("w0", "w1")
    assert [info.key for info in first.objects] == ["1/end.json", "1/run.json"]
    assert store.children("absent").folders == ()


def test_what_is_removed_is_gone(store: Store) -> None:
    store.put_if_absent("x", b"first")
    store.delete("x")
    store.delete("x")
    with pytest.raises(ObjectNotFoundError):
        store.get("x")
    store.put_if_absent("x", b"second")
    assert store.get("x") == b"second"


@pytest.mark.parametrize("place", ["runs", "/a/b", r"C:\runs", "", None, Path("s3://x")])
def test_a_folder_is_no_url(place: object) -> None:
    assert not is_url(place)
    assert is_url("s3://bucket/runs")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s4://bucket/runs", r"no object store has the scheme 's4' \(did you mean 's3'\?\)"),
        ("s3:///runs", "names no bucket"),
        ("s3://", "names no bucket"),
        ("file://", "names an absolute path"),
        ("file://host/runs", "names an absolute path"),
    ],
)
def test_an_odd_url_is_refused_in_words(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        open_store(url)


NAMES = ("lr=1e-3", "lr 1e-3", "实验一", "x#1", "x?1", "x%31", "x%2531", "x*", "x+y", "[x]", "~x")


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_place_is_listed_by_the_names_that_were_given(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = tmp_path.as_uri() if kind == "local" else request.getfixturevalue("s3_url")
    for name in NAMES:
        open_store(join(url, name)).put_if_absent("w0/key", name.encode())
    names = open_store(url).children("").folders
    assert sorted(names) == sorted(NAMES)
    for name in names:
        (info,) = open_store(join(url, name)).list("")
        assert open_store(join(url, name)).get(info.key) == name.encode()
        assert open_store(url).get(f"{name}/w0/key") == name.encode()
        assert [found.key for found in open_store(url).list(name)] == [f"{name}/w0/key"]
