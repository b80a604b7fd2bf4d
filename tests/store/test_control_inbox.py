"""Requests as files: exactly the requests that were written are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.core.collections import Collection
from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.schedule import Schedule
from mothtrap.store.control_inbox import MAX_BYTES, Inbox, new_id, read, request_path, send


def test_what_is_asked_is_what_is_read(tmp_path: Path) -> None:
    collection = Collection(tensors=("gradients:blocks.0.*",), every=3, eval=Schedule(steps=(1,)))
    request = CaptureRequest(
        id=new_id(), attempt=2, add={"mine": collection}, remove=("old",), for_steps=20
    )
    path = send(tmp_path, request)
    assert path == request_path(tmp_path, request.id)
    assert read(path) == request
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_each_request_is_found_once_the_oldest_first(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    assert inbox.take() == []
    first, second = (send(tmp_path, CaptureRequest(id=new_id(), attempt=1)) for _ in range(2))
    assert inbox.take() == [first, second]
    assert inbox.take() == []
    third = send(tmp_path, CaptureRequest(id=new_id(), attempt=1))
    assert inbox.take() == [third]
    assert Inbox(tmp_path).take() == [first, second, third]


@pytest.mark.parametrize("name", [".hidden.json", "a b.json", "x.txt", "a" * 65 + ".json"])
def test_other_files_are_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / name).write_text("{}")
    assert Inbox(tmp_path).take() == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "is not a request: Input data was truncated"),
        (b"[]", "is not a request: Expected `object`"),
        (b"\xff", "is not a request"),
        (b'{"type": "halt", "id": "x", "attempt": 1}', "is not a request: Invalid value"),
        (b'{"type": "capture", "id": "x", "attempt": 1, "extra": 1}', "unknown field `extra`"),
        (b'{"type": "capture", "id": "y", "attempt": 1}', "its id is 'y'"),
        (b" " * (MAX_BYTES + 1), "more than 65,536 bytes"),
    ],
)
def test_what_is_no_request_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(DamagedDataError) as caught:
        read(path)
    assert words in str(caught.value)
