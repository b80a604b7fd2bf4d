"""The server: binds an address of this machine, prints the address of the page, and serves it."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from mothtrap.core.errors import ConfigError
from mothtrap.store.remote import cache_folder
from mothtrap.store.user_secret import user_secret
from mothtrap.web.app import application, place_of
from mothtrap.web.gate import App, Gate, content_policy
from mothtrap.web.listing import RunsFolder
from mothtrap.web.replaying import Replays
from mothtrap.web.static_files import import_map_hash

PORT = 8765
PORTS_TRIED = 100
LOOPBACK = "127.0.0.1"
MAX_HEAD_BYTES = 1 << 17
"""Of a request without its body: 200 names of runs fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of the page: a host and port, or the path of a socket."""

    host: str
    port: int
    uds: str = ""

    def url(self, token: str, run: str = "") -> str:
        """Return the URL to open first in a browser."""
        host = "localhost" if self.uds else self.host
        host = f"[{host}]" if ":" in host else host
        port = "" if self.uds else f":{self.port}"
        return f"http://{host}{port}/?token={token}" + (f"#/overview?run={run}" if run else "")


def listen(host: str = LOOPBACK, port: int | None = None, uds: str = "") -> socket.socket:
    """Bind an address.

    Args:
        host: host to bind.
        port: port to bind; None: the first free port from 8765 on; 0: any port.
        uds: path of a Unix socket to create instead, for this user only.

    Raises:
        ConfigError: the address cannot be bound; says why.
    """
    if uds:
        return _listen_at(Path(uds))
    tried = [port] if port is not None else [*range(PORT, PORT + PORTS_TRIED), 0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in tried:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((host, number))
            server.listen()  # who connects before it is served waits
        except OSError as err:
            server.close()
            if err.errno == errno.EADDRINUSE and port is None:
                continue
            reason = "another program uses it" if err.errno == errno.EADDRINUSE else err.strerror
            raise ConfigError(
                f"cannot serve at {host}:{number}: {reason}; choose another with --port, or omit "
                "--port to use the next free one"
            ) from err
        return server
    raise ConfigError(f"no port of {host} is free")


def build(
    runs: RunsFolder,
    token: str,
    allowed_hosts: Sequence[str] = (),
    *,
    addresses: bool = False,
    replays: bool = False,
) -> App:
    """Return the application behind its gate; arguments as in `Gate` and `Replays`."""
    return Gate(
        application(runs, Replays(allowed=replays)),
        token=token,
        place=place_of(runs.where),
        policy=content_policy(import_map_hash()),
        allowed_hosts=allowed_hosts,
        addresses=addresses,
    )


def http_server(app: App) -> uvicorn.Server:
    """Return the HTTP server of the application; `run(sockets=[...])` serves it."""
    settings = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    return uvicorn.Server(settings)


def token_of(runs: RunsFolder) -> str:
    """Return the token of the page for these runs.

    It is kept in the user's cache, so that an open page survives a restart.
    """
    name = hashlib.sha256(place_of(runs.where).encode()).hexdigest()[:16]
    return user_secret(cache_folder() / "ui" / f"{name}.token")


def forward_line(address: Address) -> str:
    """Return the ssh command that forwards the page to another machine, "" if not needed."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) != 4:
        return ""
    user, here = os.environ.get("USER", "USER"), connection[2]
    there = address.uds or f"localhost:{address.port}"
    port = address.port or PORT
    return f"ssh -L {port}:{there} {user}@{here}"


def _listen_at(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(OSError):  # left by a killed server
        if stat.S_ISSOCK(path.stat().st_mode) and not _answers(path):
            path.unlink()
    before = os.umask(0o177)
    try:
        server.bind(str(path))
        server.listen()
    except OSError as err:
        server.close()
        raise ConfigError(
            f"cannot serve at {path}: {err.strerror}; choose another path with --uds"
        ) from err
    finally:
        os.umask(before)
    return server


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True
