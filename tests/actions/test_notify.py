"""A notification arrives by mail under the id of its delivery; its URL is never shown."""

from __future__ import annotations

import email
import logging
from collections.abc import Iterator

import pytest
from tests.actions.servers import dripping_server, free_port, mail_server

from mothtrap.actions import _mail, notify
from mothtrap.core.errors import ConfigError, DeliveryError
from mothtrap.testing.actions import WHERE, ActionTests, FakeJob, finding_event


def mail_url(port: int) -> str:
    return f"mailto://127.0.0.1:{port}/?from=run@example.com&to=me@example.com&mode=insecure"


class TestNotify(ActionTests):
    name = "notify"
    secrets = ("pa55", "T0KEN")

    def good(self) -> Iterator[object]:
        port = free_port()
        yield f"json://user:pa55@127.0.0.1:{port}/T0KEN"
        yield [mail_url(port), f"json://127.0.0.1:{port}/T0KEN"]

    def bad(self) -> Iterator[object]:
        yield []
        yield 7
        yield ["nonsense-pa55"]
        yield ["unknownscheme://pa55/T0KEN"]
        yield [{"url": "T0KEN"}]


def _run(url: str, delivery: str = "d1", message: str = "the loss is NaN") -> str:
    (made,) = notify.make([url], WHERE)
    return made.run(finding_event(message), FakeJob(), delivery)


def test_a_mail_arrives_and_bears_the_id_of_its_delivery_whenever_it_is_sent() -> None:
    with mail_server() as (server, port):
        for _ in range(2):
            assert _run(mail_url(port)) == "notify mailto accepted the message"
    mails = [email.message_from_bytes(mail) for mail in server.mails]
    assert [mail.get_all("Message-ID") for mail in mails] == [["<d1@mothtrap>"]] * 2
    assert server.recipients[0] == ["me@example.com"]
    text = mails[0].get_payload(decode=True).decode()
    assert "the loss is NaN" in text
    assert "step 5 in head" in text
    assert "try: Lower the learning rate." in text
    assert "more: mothtrap show runs/r1" in text
    assert mails[0]["Subject"] == "mothtrap: NUM001 nonfinite_loss (opened) in r1"


@pytest.mark.parametrize("begin", [b"220 ", b"220 here\r\n250-"])
@pytest.mark.parametrize("mode", ["insecure", "starttls", "ssl"])
def test_a_mail_server_that_drips_is_left_after_the_timeout(
    begin: bytes, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mail, "TIMEOUT_S", 0.3)
    with dripping_server(begin) as (port, left):
        with pytest.raises(DeliveryError):
            _run(mail_url(port).replace("mode=insecure", f"mode={mode}"))
        assert left.wait(20)


def test_a_message_of_a_run_adds_no_header_and_no_recipient() -> None:
    with mail_server() as (server, port):
        _run(mail_url(port), message="x\r\nBcc: everyone@example.com\r\n\r\nbody")
    mail = email.message_from_bytes(server.mails[0])
    assert mail["Bcc"] is None
    assert server.recipients == [["me@example.com"]]


def test_a_server_that_is_down_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for url in (mail_url(free_port()), f"json://127.0.0.1:{free_port()}/T0KEN"):
            with pytest.raises(DeliveryError) as caught:
                _run(url)
            assert "T0KEN" not in str(caught.value)
    assert "apprise" not in {record.name for record in caplog.records}


def test_urls_come_from_the_environment_where_none_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOTHTRAP_NOTIFY", "json://127.0.0.1:1/a  json://127.0.0.1:1/b")
    assert [made.label for made in notify.make(None, WHERE)] == ["notify json"] * 2
    monkeypatch.setenv("MOTHTRAP_NOTIFY", "json://127.0.0.1:1/a bad://pa55")
    with pytest.raises(ConfigError, match=r"MOTHTRAP_NOTIFY: notify\[1\].*'bad'") as caught:
        notify.make(None, WHERE)
    assert "pa55" not in str(caught.value)
    monkeypatch.delenv("MOTHTRAP_NOTIFY")
    with pytest.raises(ConfigError, match="MOTHTRAP_NOTIFY"):
        notify.make(None, WHERE)


def test_titles_and_lines_are_short_and_printable() -> None:
    title, body = notify.message(finding_event("y" * 5000 + "\n\x1b[31m"))
    assert len(title) <= notify.MAX_TITLE
    assert all(len(line) <= notify.MAX_LINE for line in body.splitlines())
    assert "\x1b" not in body
