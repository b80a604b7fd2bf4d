"""Requests are polled beside the training, with one poll per second."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mothtrap.core.control_requests import CaptureRequest
from mothtrap.session.request_poller import RequestPoller
from mothtrap.store import control_inbox as store
from mothtrap.store.control_inbox import Inbox, new_id, send


class Asked:
    """Results of requests to attempt 2; `arrived` reports each."""

    def __init__(self, run: Path, poll_s: float) -> None:
        self.requests: list[CaptureRequest] = []
        self.refused: list[tuple[str, str]] = []
        self.arrived = threading.Semaphore(0)
        self.watch = RequestPoller(run / "2", self._ask, self._refuse, poll_s=poll_s)

    def _ask(self, request: CaptureRequest) -> None:
        self.requests.append(request)
        self.arrived.release()

    def _refuse(self, request: str, error: str) -> None:
        self.refused.append((request, error))
        self.arrived.release()


def test_requests_to_this_attempt_are_handed_on(tmp_path: Path) -> None:
    asked = Asked(tmp_path, 0.001)
    send(tmp_path, CaptureRequest(id=new_id(), attempt=1))
    wanted = CaptureRequest(id=new_id(), attempt=2)
    send(tmp_path, wanted)
    assert asked.arrived.acquire(timeout=60)
    asked.watch.close()
    assert asked.requests == [wanted]
    assert asked.refused == []


def test_what_is_no_request_is_refused_and_the_next_is_heard(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "bad.json").write_text("{")
    asked = Asked(tmp_path, 3600.0)
    asked.watch.look()
    send(tmp_path, CaptureRequest(id=new_id(), attempt=2))
    asked.watch.look()
    asked.watch.close()
    assert [name for name, _ in asked.refused] == ["bad"]
    assert len(asked.requests) == 1


def test_a_look_is_one_listing_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, read = [], []
    listdir = store.os.listdir

    def counted(folder: Path) -> list[str]:
        looks.append(folder)
        return listdir(folder)

    request = CaptureRequest(id=new_id(), attempt=2)
    send(tmp_path, request)
    inbox = Inbox(tmp_path)
    monkeypatch.setattr(store.os, "listdir", counted)
    for _ in range(5):
        read += inbox.take()
    assert len(looks) == 5
    assert len(read) == 1


def test_the_watch_ends_at_once(tmp_path: Path) -> None:
    before = threading.active_count()
    Asked(tmp_path, 3600.0).watch.close()
    assert threading.active_count() == before
