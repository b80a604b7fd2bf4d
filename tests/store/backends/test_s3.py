"""Large objects are sent in parts; errors are reported in a sentence."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.reader.runs import DEAD_PID, closing, info, write_worker
from tests.s3_server import S3Server
from tests.store.records import record

from mothtrap.cli import main
from mothtrap.core.errors import (
    MissingExtraError,
    ObjectExistsError,
    OddKeyError,
    StoreError,
    StoreRefusedError,
)
from mothtrap.reader.run import open_run
from mothtrap.store import find_runs, layout
from mothtrap.store.backends import s3
from mothtrap.store.mirror import LeftOutWarning
from mothtrap.store.objects import Store, open_store


def client_of(store: Any) -> Any:
    """Return the client with which the store sends its requests."""
    return store._client


def parts_of(server: S3Server, key: str) -> list[str]:
    """Return the numbers of the parts in which the server received an object."""
    asked = re.compile(rf"PUT \S*/{key}\?partNumber=(\d+)&")
    return sorted(found[1] for line in server.log if (found := asked.match(line)))


def test_a_large_object_goes_in_parts_and_is_written_once(
    s3_url: str, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.log.clear()
    monkeypatch.setattr(s3, "PART_BYTES", 5 << 20)  # the minimum that the protocol allows
    data = os.urandom((11 << 20) + 3)
    (tmp_path / "raw").write_bytes(data)
    store = open_store(s3_url)
    store.put_if_absent("raw", tmp_path / "raw")
    assert store.get("raw") == data
    assert store.get("raw", (5 << 20) - 2, 5) == data[(5 << 20) - 2 :][:5]
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("raw", b"x" * (6 << 20))
    assert parts_of(s3_server, "raw") == ["1", "2", "3"]
    assert client_of(store).head("raw")["e_tag"].rstrip('"').endswith("-3")


def test_what_is_not_large_goes_in_one(s3_url: str, s3_server: S3Server) -> None:
    s3_server.log.clear()
    open_store(s3_url).put_if_absent("raw", bytes(s3.PART_BYTES))
    assert parts_of(s3_server, "raw") == []


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "ask",
    [
        lambda store, _: store.put_if_absent("new", b"1"),
        lambda store, _: store.put_if_absent("new", bytes(6 << 20)),
        lambda store, _: store.get("old"),
        lambda store, _: store.get("old", 1, 2),
        lambda store, folder: store.fetch("old", folder / "copy"),
        lambda store, _: list(store.list("")),
        lambda store, _: store.children(""),
        lambda store, _: store.delete("old"),
    ],
    ids=["put", "put parts", "get", "get a range", "fetch", "list", "children", "delete"],
)
def test_a_store_that_says_it_is_busy_is_asked_again(
    ask: Callable[[Store, Path], object],
    times: int,
    s3_url: str,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(s3, "PART_BYTES", 5 << 20)
    store = open_store(s3_url)
    store.put_if_absent("old", b"1234")
    with s3_server.busy(times):
        ask(store, tmp_path)


def test_a_store_that_stays_busy_is_an_error_that_may_pass(
    s3_url: str, s3_server: S3Server
) -> None:
    store = open_store(s3_url)
    with (
        s3_server.busy(3),
        pytest.raises(StoreError, match=r"SlowDown: Please reduce") as caught,
    ):
        store.get("x")
    assert not isinstance(caught.value, StoreRefusedError)


def test_parts_that_never_became_an_object_are_seen_by_no_one(s3_url: str) -> None:
    store = open_store(s3_url)
    writer = client_of(store)

    def broken() -> Iterator[bytes]:
        yield b"x" * (6 << 20)
        raise RuntimeError("the disk is gone")

    with pytest.raises(Exception, match="the disk is gone"):
        writer.put("raw", broken(), use_multipart=True, chunk_size=5 << 20)
    assert list(store.list("")) == []


def test_wrong_credentials_are_named(s3_url: str, s3_server: S3Server) -> None:
    store = open_store(s3_url)
    with (
        s3_server.checking_credentials(),
        pytest.raises(StoreRefusedError, match=r"InvalidAccessKeyId: .* check the credentials"),
    ):
        store.put_if_absent("x", b"1")


def test_a_bucket_that_is_not_there_is_named(s3_url: str) -> None:
    store = open_store("s3://nowhere/runs")
    for ask in (
        lambda: store.put_if_absent("x", b"1"),
        lambda: store.get("x"),
        lambda: list(store.list("")),
        lambda: store.children(""),
    ):
        with pytest.raises(StoreRefusedError, match="s3://nowhere/runs: there is no such bucket"):
            ask()


def test_a_store_that_is_down_may_come_back(s3_url: str, s3_server: S3Server) -> None:
    store = open_store(s3_url)
    s3_server.stop()
    try:
        with pytest.raises(
            StoreError, match=r"cannot write x to s3://.*: it does not answer"
        ) as caught:
            store.put_if_absent("x", b"1")
        with pytest.raises(StoreError, match=r"cannot list s3://.*: it does not answer"):
            store.children("")
    finally:
        s3_server.start()
    assert not isinstance(caught.value, StoreRefusedError)
    assert "\n" not in str(caught.value)
    store.put_if_absent("x", b"1")
    assert store.get("x") == b"1"


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(MissingExtraError, match="pip install 'obstore"):
        s3.open_store("s3://bucket/runs")


def test_a_run_with_a_key_that_no_one_can_ask_for_is_left_out_of_the_list(
    s3_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    """Such a key once aborted the list of all runs with an error of the client library."""
    run = tmp_path / "x"
    write_worker(layout.create_run(run, info(id="x", pid=DEAD_PID)), record(0), closing(1))
    for name in ("good", "odd", "odd2"):
        for path in run.rglob("*"):
            if path.is_file():
                key = f"{name}/{path.relative_to(run).as_posix()}"
                open_store(s3_url).put_if_absent(key, path)
    s3_server.put(f"{s3_url}/odd/1/../key", b"")
    s3_server.put(f"{s3_url}/odd2/1/w0/../key", b"")
    with pytest.warns(LeftOutWarning, match=r"/odd is skipped.*'team/runs/odd/1/../'.*remove it"):
        listed = find_runs.list_runs(s3_url)
    assert {open_run(path).steps for path in listed} == {1}
    assert len(listed) == 2
    with pytest.raises(OddKeyError, match="remove it"):
        open_run(f"{s3_url}/odd")
    printed = CliRunner().invoke(main, ["ls", s3_url])
    assert printed.exit_code == 0
    assert "warning: " in printed.stderr
    assert "odd is skipped" in printed.stderr
    s3_server.put(f"{s3_url}/../key", b"")
    with pytest.raises(OddKeyError, match=r"the key 'team/runs/../' has a part"):
        find_runs.list_runs(s3_url)
