"""A webhook is signed, bears the id of its delivery, and trusts no answer."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.actions.servers import Received, dripping_server, free_port, web_server

from mothtrap.actions import webhook
from mothtrap.core.errors import ActionError, DeliveryError
from mothtrap.testing.actions import WHERE, ActionTests, FakeJob, finding_event


class TestWebhook(ActionTests):
    name = "webhook"
    secrets = ("s3cr3t", "t0ken")

    def good(self) -> Iterator[object]:
        port = free_port()
        yield f"http://127.0.0.1:{port}/t0ken"
        yield {"url": f"http://127.0.0.1:{port}/t0ken", "secret": "s3cr3t", "headers": {"X-A": "b"}}

    def bad(self) -> Iterator[object]:
        yield None
        yield "ftp://t0ken"
        yield "http://[t0ken"
        yield "http://host:99999/t0ken"
        yield "http://host/t0 ken\r\nX: s3cr3t"
        yield {"url": "http://host", "secrt": "s3cr3t"}
        yield {"url": "http://host", "headers": {"X": "s3cr3t\r\nY: 1"}}
        yield {"url": "http://host", "timeout_s": 0}


def _post(url: str, secret: str = "", **more: object) -> str:
    (made,) = webhook.make({"url": url, "secret": secret, **more}, WHERE)
    return made.run(finding_event(), FakeJob(), "d1")


def test_the_receiver_can_check_the_signature_and_knows_the_delivery() -> None:
    with web_server() as server:
        assert _post(f"{server.url}/hook?x=1", "s3cr3t") == "the webhook answered 204"
    (request,) = server.received
    said = dict(part.split("=") for part in request.headers["x-mothtrap-signature"].split(","))
    signed = f"{said['t']}.".encode() + request.body
    assert said["v1"] == hmac.new(b"s3cr3t", signed, hashlib.sha256).hexdigest()
    assert request.headers["idempotency-key"] == "d1"
    assert request.path == "/hook?x=1"
    content = json.loads(request.body)
    assert (content["specversion"], content["id"], content["type"]) == (
        *("1.0", "d1"),
        "mothtrap.opened",
    )
    assert content["data"]["finding"]["code"] == "NUM001"


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(code: int) -> None:
    with (
        web_server(lambda _: (code, {}, b"")) as server,
        pytest.raises(DeliveryError, match=str(code)),
    ):
        _post(server.url)


@pytest.mark.parametrize("code", [400, 401, 404, 410])
def test_what_is_refused_is_not_tried_again(code: int) -> None:
    with web_server(lambda _: (code, {}, b"")) as server, pytest.raises(ActionError) as caught:
        _post(server.url)
    assert not isinstance(caught.value, DeliveryError)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "begin",
    [
        *(b"", b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_an_answer_that_drips_is_left_after_the_timeout(begin: bytes, scheme: str) -> None:
    """Each byte restarts the timeout of a socket."""
    with dripping_server(begin) as (port, left):
        with suppress(DeliveryError):  # an answer whose head was read confirms the event
            _post(f"{scheme}://127.0.0.1:{port}/", timeout_s=0.3)
        assert left.wait(20)


def test_no_one_listens() -> None:
    with pytest.raises(DeliveryError, match="did not answer") as caught:
        _post(f"http://127.0.0.1:{free_port()}/t0ken")
    assert "t0ken" not in str(caught.value)


def test_an_endless_answer_is_not_read() -> None:
    answer = (200, {"X-Endless": "1"}, b"x" * (1 << 16))
    with web_server(lambda _: answer) as server:
        assert _post(server.url) == "the webhook answered 200"
    assert server.sent_bytes < 64 << 20


def test_a_redirect_within_the_host_is_followed() -> None:
    def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
        return (307, {"Location": "/there"}, b"") if request.path == "/here" else (200, {}, b"")

    with web_server(answer) as server:
        assert _post(f"{server.url}/here") == "the webhook answered 200"
    assert [request.path for request in server.received] == ["/here", "/there"]


def test_a_redirect_to_another_host_is_not_followed() -> None:
    with web_server() as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        for target in (elsewhere, other.url, "file:///etc/passwd", "//evil.example/"):
            answer = (302, {"Location": target}, b"")
            with (
                web_server(lambda _, answer=answer: answer) as server,
                pytest.raises(ActionError, match="another host"),
            ):
                _post(server.url)
    assert other.received == []


def test_endless_redirects_end() -> None:
    answer = (302, {"Location": "/again"}, b"")
    with web_server(lambda _: answer) as server, pytest.raises(ActionError, match="too many times"):
        _post(server.url)
    assert len(server.received) == 4
