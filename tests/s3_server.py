"""A server that speaks the S3 protocol on loopback: started, stopped and started again."""

from __future__ import annotations

import itertools
import logging
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from mothtrap.store import objects

_NUMBERS = itertools.count()
_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class S3Server:
    """Keeps its objects and its port while it is stopped.

    Attributes:
        log: the requests, e.g. `PUT /bucket/key?partNumber=1`, in order.
    """

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.port = 0
        self.log: list[str] = []
        self._refused = 0
        self._lock = threading.Lock()
        self._app = DomainDispatcherApplication(create_backend_app)
        self.start()

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen on the previous port."""
        self._server = make_server(
            "127.0.0.1", self.port, self._answer, threaded=True, request_handler=MotoRequestHandler
        )
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections."""
        self._server.shutdown()
        self._thread.join()

    @contextmanager
    def busy(self, requests: int) -> Iterator[None]:
        """Answer that many requests with "try again later"; unused ones are cleared at the end."""
        self._refused = requests
        yield
        assert self._refused == 0

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        with self._lock:
            path = environ["PATH_INFO"] + (f"?{query}" if query else "")
            self.log.append(f"{environ['REQUEST_METHOD']} {path}")
            refuse = self._refused > 0
            self._refused -= refuse
        if not refuse:
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("503 Slow Down", [("Content-Type", "application/xml")])
        return [_BUSY]

    def make_bucket(self) -> str:
        """Make a bucket that no other test has; return its name."""
        name = f"bucket-{next(_NUMBERS)}"
        self._ask("PUT", f"/{name}")
        return name

    def put(self, url: str, data: bytes) -> None:
        """Write an object at `s3://bucket/key`, whatever the key is."""
        self._ask("PUT", f"/{url.removeprefix('s3://')}", data)

    @contextmanager
    def checking_credentials(self) -> Iterator[None]:
        """Reject every key."""
        self._ask("POST", "/moto-api/reset-auth", b"0")
        try:
            yield
        finally:
            self._ask("POST", "/moto-api/reset-auth", b"inf")

    def _ask(self, method: str, path: str, data: bytes | None = None) -> None:
        headers = {"Content-Type": "text/plain"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            answer.read()


def credentials(server: S3Server) -> dict[str, str]:
    """Return the environment of a user of the server."""
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
    }


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    """Run one server for the tests of a file."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3_url(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Return the URL of an empty folder for runs, with credentials and separate caches."""
    home = tmp_path_factory.mktemp("home")
    environment = {**credentials(s3_server), "HOME": str(home), "MOTHTRAP_CACHE": str(home / "c")}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    objects.open_store.cache_clear()
    return f"s3://{s3_server.make_bucket()}/team/runs"
