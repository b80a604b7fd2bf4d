"""Servers on the loopback interface that keep the requests that they receive."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

Answer = Callable[["Received"], tuple[int, dict[str, str], bytes]]


class Received:
    """A request as it came: path, headers in lower case, body."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path, self.headers, self.body = path, headers, body


class WebServer:
    """Answers each request as configured; `received` keeps them."""

    def __init__(self, answer: Answer) -> None:
        self.received: list[Received] = []
        self.sent_bytes = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                headers = {k.lower(): v for k, v in self.headers.items()}
                request = Received(self.path, headers, self.rfile.read(size))
                outer.received.append(request)
                code, fields, body = answer(request)
                self.send_response(code)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    while body:
                        self.wfile.write(body)
                        outer.sent_bytes += len(body)
                        if fields.get("X-Endless") is None:
                            break
                except OSError:
                    return

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def web_server(answer: Answer = lambda _: (204, {}, b"")) -> Iterator[WebServer]:
    """Serve until the end of the block."""
    server = WebServer(answer)
    thread = threading.Thread(target=server.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        server.server.server_close()
        thread.join()


@contextmanager
def dripping_server(begin: bytes, part: bytes = b"a") -> Iterator[tuple[int, threading.Event]]:
    """Answer each connection with `begin`, then with a part every 20 ms for 40 s at most.

    Yields:
        The port, and an event that is set when a client has left before the end.
    """
    left = threading.Event()

    def drip(client: socket.socket) -> None:
        with client:
            try:
                client.sendall(begin)
                for _ in range(2_000):
                    client.sendall(part)
                    time.sleep(0.02)
            except OSError:
                left.set()

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=drip, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1], left
        listening.shutdown(socket.SHUT_RDWR)


class MailServer:
    """Keeps mails; `arrived` is released once for each."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.recipients: list[list[str]] = []
        self.arrived = threading.Semaphore(0)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  # its name
        """Keep a mail."""
        self.mails.append(envelope.content)
        self.recipients.append(envelope.rcpt_tos)
        self.arrived.release()
        return "250 OK"


@contextmanager
def mail_server(port: int = 0) -> Iterator[tuple[MailServer, int]]:
    """Serve SMTP until the end of the block; yield the server and its port."""
    kept = MailServer()
    controller = Controller(
        kept,
        hostname="127.0.0.1",
        port=port or free_port(),
        authenticator=lambda *_: AuthResult(success=True),
        auth_require_tls=False,
    )
    controller.start()
    try:
        yield kept, controller.port
    finally:
        controller.stop()


def free_port() -> int:
    """Return a port of the loopback without a listener."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
