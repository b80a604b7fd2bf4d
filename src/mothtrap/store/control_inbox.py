"""Requests to a running job: small JSON files under `RUN/control/`.

A client writes a file. Each worker of the job reads it, and answers in its events. For a run in
an object store, the client writes an object, which the uploader of the run fetches.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.control_requests import AnyRequest
from mothtrap.core.errors import DamagedDataError
from mothtrap.store.objects import Store, open_store
from mothtrap.store.plain_files import open_plain
from mothtrap.store.remote import read_remote
from mothtrap.store.replacing import replace

FOLDER = "control"

MAX_BYTES = 1 << 16
"""Maximum size of a request; chosen by hand, a hundred times the usual size."""

_NAME = re.compile(r"([0-9A-Za-z-]{1,64})\.json")


def new_id() -> str:
    """Return a new request id; ids are ordered by time."""
    return f"{time.time_ns():020d}-{secrets.token_hex(4)}"


def request_path(run: Path, request: str) -> Path:
    """Return the file of a request."""
    return run / FOLDER / f"{request}.json"


def send(run: Path, request: AnyRequest) -> Path:
    """Send a request to the workers of a run; return its file.

    Args:
        run: folder of the run; if it is a mirror, the request is also sent to the store.
        request: the request.

    Raises:
        StoreError: the store cannot be reached, or rejects the request.
        OSError: the folder of the run cannot be written.
    """
    path, data = request_path(run, request.id), jsonable.encode(request)
    remote = read_remote(run)
    if remote is not None and remote.role == "mirror":
        open_store(remote.url).put_if_absent(path.relative_to(run).as_posix(), data)
    path.parent.mkdir(exist_ok=True)
    replace(path, data)
    return path


def fetch(store: Store, run: Path) -> None:
    """Fetch missing requests from a run's store, using one list request.

    Raises:
        StoreError: the store cannot be reached, or rejects the request.
        OSError: the folder of the run cannot be written.
    """
    for info in store.list(FOLDER):
        path = run / FOLDER / info.key.rpartition("/")[2]
        if _NAME.fullmatch(path.name) and not path.exists():
            path.parent.mkdir(exist_ok=True)
            replace(path, store.get(info.key, 0, MAX_BYTES + 1))


def read(path: Path) -> AnyRequest:
    """Read a request.

    Raises:
        DamagedDataError: the file is too large, or is not a request.
        OSError: the file cannot be read.
    """
    with os.fdopen(open_plain(path), "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DamagedDataError(
            f"{path.name} is not a request: it has more than {MAX_BYTES:,} bytes"
        )
    try:
        request = _decoded(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise DamagedDataError(f"{path.name} is not a request: {err}") from err
    if request.id != path.stem:
        raise DamagedDataError(f"{path.name} is not a request: its id is {request.id!r}")
    return request


def _decoded(data: bytes) -> AnyRequest:
    request: AnyRequest = jsonable.decode(data, AnyRequest)  # type: ignore[arg-type]  # a union
    return request


class Inbox:
    """Requests that arrived since the last check.

    Args:
        run: folder of the run.
    """

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._seen: set[str] = set()

    def take(self) -> list[Path]:
        """Return the new files, oldest first, listing the folder once."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        new = sorted(name for name in names if _NAME.fullmatch(name) and name not in self._seen)
        self._seen.update(new)
        return [self._folder / name for name in new]
