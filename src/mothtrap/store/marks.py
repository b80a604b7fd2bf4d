"""Marks that people put on findings: one small JSON file each, under `RUN/marks/`."""

from __future__ import annotations

import getpass
import secrets
import time
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.marks import Mark
from mothtrap.store.objects import open_store
from mothtrap.store.remote import read_remote
from mothtrap.store.replacing import replace

FOLDER = "marks"
MAX_BYTES = 1 << 14
"""Of a mark that is read; chosen by hand, fifty times what one needs."""


def put_mark(run: Path, mark: Mark) -> Path:
    """Leave a mark in a run; where the folder is a mirror, in its store, too.

    Raises:
        StoreError: the store cannot be reached, or refuses.
        OSError: the folder of the run cannot be written.
    """
    path = run / FOLDER / f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    data, remote = jsonable.encode(mark), read_remote(run)
    if remote is not None and remote.role == "mirror":
        open_store(remote.url).put_if_absent(path.relative_to(run).as_posix(), data)
    path.parent.mkdir(exist_ok=True)
    replace(path, data)
    return path


def read_marks(run: Path) -> dict[str, Mark]:
    """Return the latest mark of each fingerprint; files that hold none are passed over."""
    found: dict[str, Mark] = {}
    try:
        paths = sorted((run / FOLDER).glob("*.json"))
    except OSError:
        return found
    for path in paths:
        try:
            with path.open("rb") as file:
                mark = jsonable.decode(file.read(MAX_BYTES + 1), Mark)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue
        found[mark.fingerprint] = mark
    return found


def user_name() -> str:
    """Return the name of who leaves a mark, "" where the system has none (as in a container)."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
