"""Messages are delivered at least once under one id, even if this process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from tests.actions.servers import free_port, mail_server, web_server

from mothtrap.actions import webhook
from mothtrap.actions.notify import make as notify
from mothtrap.core.actions import Job
from mothtrap.core.errors import ActionError, DeliveryError
from mothtrap.core.events import Event
from mothtrap.monitor import deliveries
from mothtrap.monitor.deliveries import Deliveries, delivery_id
from mothtrap.store.journal import Journal, read_journal, unconfirmed
from mothtrap.testing.actions import WHERE, FakeJob, finding_event


class Sender:
    """Fails as often as configured; `ids` are those of the attempts."""

    label, target, is_message = "sender", "", True

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.ids = list(failures), list[str]()
        self.tried = threading.Semaphore(0)

    def run(self, event: Event, job: Job, delivery: str) -> str:
        self.ids.append(delivery)
        self.tried.release()
        if self.failures:
            raise self.failures.pop(0)
        return "sent"


def _begin(run: Path, said: list[str] | None = None) -> tuple[Deliveries, Journal]:
    run.mkdir(exist_ok=True)
    journal = Journal(run)
    assert journal.hold()
    lines = said if said is not None else []
    return Deliveries(journal, FakeJob(run), lines.append), journal


def _send(found: Deliveries, sender: object, event: Event | None = None) -> None:
    found.send("page", "notify", sender, event or finding_event(), "r1")  # type: ignore[arg-type]


def test_a_message_is_noted_sent_and_confirmed_and_not_sent_twice(tmp_path: Path) -> None:
    sender = Sender()
    found, journal = _begin(tmp_path / "r")
    for _ in range(3):
        _send(found, sender)
    assert found.close(10) == 0
    journal.close()
    assert len(sender.ids) == 1
    assert [(entry.id, entry.state) for entry in read_journal(tmp_path / "r")] == [
        (sender.ids[0], "noted"),
        (sender.ids[0], "sent"),
    ]
    found, journal = _begin(tmp_path / "r")
    _send(found, sender)
    assert found.resend([("page", "notify", sender)]) == 0
    assert found.close(10) == 0
    assert len(sender.ids) == 1


def test_one_that_may_arrive_later_is_tried_again_under_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "FIRST_WAIT_S", 0.001)
    sender = Sender(DeliveryError("down"), DeliveryError("down"))
    found, _ = _begin(tmp_path / "r")
    _send(found, sender)
    for _ in range(3):
        assert sender.tried.acquire(timeout=30)
    assert found.close(10) == 0
    assert len(sender.ids) == 3
    assert len(set(sender.ids)) == 1


@pytest.mark.parametrize("error", [ActionError("refused"), ZeroDivisionError("t0ken")])
def test_one_that_never_can_is_said_and_given_up(tmp_path: Path, error: Exception) -> None:
    said: list[str] = []
    found, _ = _begin(tmp_path / "r", said)
    _send(found, Sender(error))
    assert found.close(10) == 0
    assert read_journal(tmp_path / "r")[-1].state == "failed"
    (line,) = said
    assert "t0ken" not in line + (tmp_path / "r/alerts/journal.jsonl").read_text()


def test_what_is_left_at_the_end_is_sent_by_the_next_process(tmp_path: Path) -> None:
    port = free_port()
    url = f"mailto://127.0.0.1:{port}/?from=a@example.com&to=b@example.com&mode=insecure"
    (sender,) = notify([url], WHERE)
    found, journal = _begin(tmp_path / "r")
    _send(found, sender)
    assert found.close(0.2) == 1, "the mail server is down"
    journal.close()
    (left,) = unconfirmed(read_journal(tmp_path / "r"))
    with mail_server(port) as (server, _):
        found, journal = _begin(tmp_path / "r")
        assert found.resend([("page", "notify", sender)]) == 1
        assert server.arrived.acquire(timeout=30)
        assert found.close(10) == 0
    assert f"Message-ID: <{left.id}@mothtrap>".encode() in server.mails[0]


def test_a_mail_server_that_comes_up_gets_the_letter_while_the_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(deliveries, "LONGEST_WAIT_S", 0.05)
    port = free_port()
    url = f"mailto://127.0.0.1:{port}/?from=a@example.com&to=b@example.com&mode=insecure"
    found, _ = _begin(tmp_path / "r")
    _send(found, notify([url], WHERE)[0])
    with mail_server(port) as (server, _):
        assert server.arrived.acquire(timeout=30)
        assert found.close(10) == 0
    assert len(server.mails) == 1


def test_only_one_process_holds_a_journal(tmp_path: Path) -> None:
    _, journal = _begin(tmp_path / "r")
    assert not Journal(tmp_path / "r").hold()
    journal.close()
    assert Journal(tmp_path / "r").hold()


def test_a_torn_line_costs_that_line_alone(tmp_path: Path) -> None:
    sender = Sender(*[DeliveryError("down")] * 9)
    found, journal = _begin(tmp_path / "r")
    _send(found, sender)
    found.close(0.0)
    journal.close()
    path = tmp_path / "r/alerts/journal.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id":"half')
    found, journal = _begin(tmp_path / "r")
    other = msgspec.structs.replace(finding_event(), key="opened/other/1")
    _send(found, Sender(), other)
    assert found.close(10) == 0
    journal.close()
    (left,) = unconfirmed(read_journal(tmp_path / "r"))
    assert left.id == delivery_id("r1", finding_event(), "page", "notify", "")


KILLED = """
import os, signal, sys
from pathlib import Path
from mothtrap.actions import webhook
from mothtrap.monitor.deliveries import Deliveries
from mothtrap.store.journal import Journal
from mothtrap.testing.actions import WHERE, FakeJob, finding_event

run, url, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
run.mkdir(exist_ok=True)
journal = Journal(run)
journal.hold()
note, (sender,) = journal.note, webhook.make(url, WHERE)

def noting(entry):
    if when == "before the note" or (when == "before the confirmation" and entry.state == "sent"):
        os.kill(os.getpid(), signal.SIGKILL)
    note(entry)
    if when == "after the note" or (when == "after the confirmation" and entry.state == "sent"):
        os.kill(os.getpid(), signal.SIGKILL)

journal.note = noting
found = Deliveries(journal, FakeJob(run), print)
found.send("page", "webhook", sender, finding_event(), "r1")
found.close(30)
"""


@pytest.mark.parametrize(
    ("when", "before", "after"),
    [
        ("before the note", 0, 1),
        ("after the note", 0, 1),
        ("before the confirmation", 1, 1),
        ("after the confirmation", 1, 0),
    ],
)
def test_kill_9_at_any_point_loses_nothing_and_repeats_only_in_the_gap(
    tmp_path: Path, when: str, before: int, after: int
) -> None:
    with web_server() as server:
        command = [sys.executable, "-c", KILLED, str(tmp_path / "r"), server.url, when]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MOTHTRAP")}
        assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
        assert len(server.received) == before
        (sender,) = webhook.make(server.url, WHERE)
        found, journal = _begin(tmp_path / "r")
        found.resend([("page", "webhook", sender)])
        found.send("page", "webhook", sender, finding_event(), "r1")
        assert found.close(30) == 0
        journal.close()
    assert len(server.received) == before + after
    ids = {request.headers["idempotency-key"] for request in server.received}
    assert ids == {delivery_id("r1", finding_event(), "page", "webhook", "")}
