"""Send the event as signed JSON to an HTTP address.

The body is an event of CloudEvents 1.0 in JSON. `Idempotency-Key` is the id of the delivery, the
same whenever it is tried again. With a secret, `X-Mothtrap-Signature` is
`t=<Unix seconds>,v1=<hex>`: HMAC-SHA256 of `<Unix seconds>.<body>`.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field

from mothtrap.actions._deadline import Deadline
from mothtrap.core import jsonable
from mothtrap.core.actions import Action, Job, settings_of
from mothtrap.core.errors import ActionError, ConfigError, DeliveryError
from mothtrap.core.events import Event

TIMEOUT_S = 10.0
"""Limit for the whole exchange, including redirects; chosen by hand."""
MAX_ANSWER_BYTES = 64 << 10
"""Maximum number of bytes read from a response; chosen by hand."""
MAX_REDIRECTS = 3
AGAIN = (408, 425, 429)
"""Codes below 500 after which trying again may help."""
KEYS = ("url", "secret", "headers", "timeout_s")
REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Posts events; follows redirects only within one host, to the same scheme or to https."""

    url: str = field(repr=False)
    secret: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    timeout_s: float
    label: str = "webhook"
    target: str = ""
    is_message: bool = True

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Post the event; a 2xx response confirms it."""
        del job
        body = jsonable.shown(
            {
                "specversion": "1.0",
                "id": delivery,
                "source": f"mothtrap/{urllib.parse.quote(event.run)}",
                "type": f"mothtrap.{event.kind}",
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event.time_s)),
                "datacontenttype": "application/json",
                "data": event,
            }
        )
        headers = {
            **dict(self.headers),
            "Content-Type": "application/cloudevents+json",
            "Idempotency-Key": delivery,
            "User-Agent": "mothtrap",
        }
        if self.secret:
            headers["X-Mothtrap-Signature"] = signature(self.secret, int(time.time()), body)
        with Deadline(self.timeout_s) as deadline:
            code = self._post(self.url, body, headers, MAX_REDIRECTS, deadline)
        if 200 <= code < 300:
            return f"the webhook answered {code}"
        if code >= 500 or code in AGAIN:
            raise DeliveryError(f"the webhook answered {code}")
        raise ActionError(f"the webhook answered {code}")

    def _post(
        self, url: str, body: bytes, headers: dict[str, str], redirects: int, deadline: Deadline
    ) -> int:
        parts = urllib.parse.urlsplit(url)
        connection = _connection(parts, deadline)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            target = answer.getheader("Location", "")
            _drain(answer)
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise DeliveryError(f"the webhook did not answer: {_kind(err)}") from None
        finally:
            connection.close()
        if answer.status not in REDIRECTS or not target:
            return answer.status
        if not redirects:
            raise ActionError("the webhook redirects too many times")
        following = urllib.parse.urljoin(url, target)
        if not _is_same_host(parts, urllib.parse.urlsplit(following)):
            raise ActionError("the webhook redirects to another host, which is not followed")
        return self._post(following, body, headers, redirects - 1, deadline)


def _connection(parts: urllib.parse.SplitResult, deadline: Deadline) -> http.client.HTTPConnection:
    """Return an HTTP connection that a deadline opens and limits."""
    secure = parts.scheme == "https"
    make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port)
    # The only hook of http.client for connecting, with and without TLS (Python 3.11 to 3.14).
    connection._create_connection = lambda address, *_: deadline.connect(address)  # type: ignore[attr-defined]
    return connection


def _drain(answer: http.client.HTTPResponse) -> None:
    """Read part of the answer, and discard the rest."""
    read = 0
    while read < MAX_ANSWER_BYTES and (part := answer.read1(8192)):
        read += len(part)


def signature(secret: str, at_s: int, body: bytes) -> str:
    """Return the signature of a body sent at a Unix time."""
    signed = f"{at_s}.".encode() + body
    return f"t={at_s},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def make(settings: object, where: str) -> Sequence[Action]:
    """Return the action.

    Args:
        settings: a URL, or a table with `url`, `secret`, `headers` and `timeout_s`.
        where: source of the settings; errors never repeat the URL.
    """
    values = settings_of(settings, "webhook", "url", where)
    if unknown := sorted(values.keys() - set(KEYS)):
        raise ConfigError(f"{where}: webhook has no {unknown[0]!r}; known keys: {', '.join(KEYS)}")
    url, secret = values.get("url"), values.get("secret", "")
    headers, timeout_s = values.get("headers", {}), values.get("timeout_s", TIMEOUT_S)
    if not isinstance(url, str) or not _is_url(url):
        raise ConfigError(f"{where}: webhook must be a URL that begins with http:// or https://")
    if not isinstance(secret, str) or not isinstance(headers, dict):
        raise ConfigError(f"{where}: webhook.secret must be a string, webhook.headers a table")
    texts = [text for pair in headers.items() for text in pair]
    if not all(isinstance(t, str) and t.isprintable() and t.isascii() for t in texts):
        raise ConfigError(f"{where}: webhook.headers must be printable strings")
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 600:
        raise ConfigError(f"{where}: webhook.timeout_s must be between 0 and 600 seconds")
    return (Webhook(url, secret, tuple(headers.items()), float(timeout_s)),)


def _is_url(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and named and url.isprintable() and " " not in url


def _is_same_host(before: urllib.parse.SplitResult, after: urllib.parse.SplitResult) -> bool:
    try:
        ports = before.port, after.port
    except ValueError:
        return False
    if before.hostname != after.hostname:
        return False
    return (before.scheme == after.scheme and ports[0] == ports[1]) or (
        before.scheme == "http" and after.scheme == "https"
    )


def _kind(err: BaseException) -> str:
    """Describe an error in words that contain no part of the URL."""
    plain = isinstance(err, ConnectionError | TimeoutError | socket.gaierror)
    return (plain and getattr(err, "strerror", None)) or type(err).__name__
