"""Remarks of people on a run: one small JSON file each, in a folder of the run."""

from __future__ import annotations

import getpass
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from mothtrap.core import jsonable
from mothtrap.store.objects import open_store
from mothtrap.store.plain_files import read_plain
from mothtrap.store.remote import read_remote
from mothtrap.store.replacing import replace

MAX_BYTES = 1 << 14
"""Maximum size of a remark that is read; chosen by hand, fifty times the usual size."""
MAX_REMARKS = 10_000
T = TypeVar("T")


def put_remark(run: Path, folder: str, remark: msgspec.Struct) -> Path:
    """Store a remark in a run; for a mirror, also in the run's store.

    Raises:
        StoreError: the store cannot be reached, or rejects the request.
        OSError: the folder of the run cannot be written.
    """
    path = run / folder / f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    data, remote = jsonable.encode(remark), read_remote(run)
    if remote is not None and remote.role == "mirror":
        open_store(remote.url).put_if_absent(path.relative_to(run).as_posix(), data)
    path.parent.mkdir(exist_ok=True)
    replace(path, data)
    return path


def read_remarks(run: Path, folder: str, kind: type[T]) -> list[T]:
    """Return the remarks of a run in order, skipping invalid files."""
    return [remark for _, remark in _read(run, folder, kind) if not isinstance(remark, str)]


def remark_damage(run: Path, folder: str, kind: type[T]) -> list[str]:
    """Return a sentence for each remark file that cannot be read."""
    read = _read(run, folder, kind)
    return [f"{path} cannot be read: {why}" for path, why in read if isinstance(why, str)]


def _read(run: Path, folder: str, kind: type[T]) -> Iterator[tuple[Path, T | str]]:
    """Yield each file with its remark, or with the reason why it cannot be read."""
    try:
        paths = sorted((run / folder).glob("*.json"))[-MAX_REMARKS:]
    except OSError:
        return
    for path in paths:
        try:
            yield path, jsonable.decode(read_plain(path, MAX_BYTES), kind)
        except OSError as err:
            yield path, err.strerror or str(err)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            yield path, str(err)


def user_name() -> str:
    """Return the user name for a remark; "" if the system has none (as in a container)."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
