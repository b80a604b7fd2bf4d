"""A server over runs of every kind, and a browser that shows its page."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.web.deep_runs import make_deep
from tests.web.made_runs import make_all

pytest.importorskip("starlette", reason="the extra web is not installed")

from mothtrap.web import server
from mothtrap.web.listing import RunsFolder

TOKEN = "t" * 43


@dataclass
class Site:
    """A server in a thread, which can be stopped and started at the same port."""

    runs: Path
    where: str = ""
    port: int = 0
    _server: Any = None
    _thread: threading.Thread | None = field(default=None)

    def start(self) -> None:
        """Serve, at the port of the first start."""
        folder = RunsFolder(self.where or str(self.runs))
        bound = server.listen(port=self.port)
        self.port = bound.getsockname()[1]
        self._server = server.http_server(server.build(folder, TOKEN))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [bound]})
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def origin(self) -> str:
        """Where it is served."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, place: str = "") -> str:
        """The first address, with a token, that leads to a place."""
        return f"{self.origin}/?token={TOKEN}{place}"

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request as a tool does; a header with the value None is omitted."""
        given = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body or b"")))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """Return the answer of an address of the API."""
        status, _, body = self.ask(path)
        assert status == 200, body
        return json.loads(body)


@pytest.fixture(scope="package", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Leave the user's cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTHTRAP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs."""
    runs = tmp_path_factory.mktemp("web") / "runs"
    make_all(runs)
    make_deep(runs)
    return runs


@pytest.fixture(scope="session")
def site(made: Path) -> Iterator[Site]:
    """A server over all runs."""
    served = Site(made)
    served.start()
    yield served
    served.stop()


class Served:
    """`mothtrap ui` in a separate process, which can be killed."""

    def __init__(self, runs: Path, port: int, cache: Path, *options: str) -> None:
        command = [sys.executable, "-m", "mothtrap", "ui", str(runs), "--port", str(port)]
        self._command = [*command, *options]
        self._environment = {**os.environ, "MOTHTRAP_CACHE": str(cache)}
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve; `url` is the first address."""
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()

    def kill(self) -> None:
        """End it as the system does when memory is short."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


def until(true: Any, within_s: float = 240.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


class Watched:
    """A page whose console, errors and requests are recorded."""

    def __init__(self, page: Any, origin: str, *, timeout_ms: int = 30_000) -> None:
        self.page = page
        self.console: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        page.set_default_timeout(timeout_ms)  # a machine may be busy
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._asked(request.url, origin))

    def _asked(self, url: str, origin: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != origin:
            self.elsewhere.append(url)

    def assert_quiet(self) -> None:
        """Assert that the console is empty, no request failed, and none went to another origin."""
        assert (self.console, self.errors, self.elsewhere) == ([], [], [])


@pytest.fixture
def watched(browser: Any, site: Site) -> Iterator[Watched]:
    """A fresh page; whatever a test does with it, it stays quiet."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), site.origin)
    yield seen
    context.close()
    seen.assert_quiet()


@pytest.fixture
def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
