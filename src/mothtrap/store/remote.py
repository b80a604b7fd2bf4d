"""Runs in an object store, and the local folders that represent them.

`RUN/remote.json` has the URL of a folder, and its kind: a spool contains data that a job of this
machine has written, and is sent from there. A mirror contains fetched data. Both are in the
folder of `cache_folder`.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import DamagedDataError
from mothtrap.store.objects import open_store, split
from mothtrap.store.plain_files import read_plain
from mothtrap.store.replacing import replace

_FILE = "remote.json"
MAX_BYTES = 1 << 16
"""Maximum size of `remote.json` that is read; chosen by hand."""


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """`remote.json`: remote location of a run's folder; `whole`: a mirror with all statistics."""

    url: str
    role: Literal["spool", "mirror"]
    whole: bool = True


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `MOTHTRAP_CACHE`, or this platform's cache folder."""
    if given := environ.get("MOTHTRAP_CACHE"):
        return Path(given)
    try:
        home = Path(environ.get("HOME", "~")).expanduser()
    except RuntimeError:  # a container's user may have no entry in the list of users
        home = Path(tempfile.gettempdir(), f"mothtrap-{os.getuid()}")
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "mothtrap"
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA", home)) / "mothtrap"
    return Path(environ.get("XDG_CACHE_HOME", home / ".cache")) / "mothtrap"


def spool_folder(runs_url: str) -> Path:
    """Return the local folder for runs that will be uploaded to a location."""
    return cache_folder() / "spool" / _folder_name(runs_url)


def mirrors_folder() -> Path:
    """Return the folder of all fetched runs: `<unique folder>/<name of the run>`."""
    return cache_folder() / "mirror"


def mirror_folder(url: str, description: bytes) -> Path:
    """Return the unique folder into which a run is fetched.

    Args:
        url: URL of the run.
        description: its first `run.json`, which distinguishes it from an earlier run of that name.
    """
    plain = url.rstrip("/")
    digest = hashlib.sha256(plain.encode() + b"\n" + description).hexdigest()[:16]
    return mirrors_folder() / f"{_safe(plain)}-{digest}" / _safe(split(plain)[1])


def _folder_name(url: str) -> str:
    """Return a readable folder name that is unique to a URL."""
    plain = url.rstrip("/")
    return f"{_safe(plain)}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text.strip("/")).lstrip(".")[:80] or "-"


def write_remote(run: Path, remote: Remote) -> None:
    """Record the remote location of a folder."""
    replace(run / _FILE, jsonable.encode(remote))


def read_remote(run: Path) -> Remote | None:
    """Return the remote location of a folder; None for a local run.

    Raises:
        DamagedDataError: the file was not written by `write_remote`, or is damaged.
    """
    try:
        return jsonable.decode(read_plain(run / _FILE, MAX_BYTES), Remote)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as err:
        raise DamagedDataError(
            f"{run / _FILE} cannot be read: {err}; remove the folder of this mirror, and mothtrap "
            "downloads it again"
        ) from err


def place_of(run: Path) -> str:
    """Return where users find a run: its URL, or its folder."""
    remote = read_remote(run)
    return remote.url if remote else str(run)


def read_range(path: Path, offset: int, size: int) -> bytes | None:
    """Read from the object that corresponds to a file of a run's worker.

    Args:
        path: `RUN/<attempt>/w<rank>/<file>`, which is not on this machine.
        offset: offset of the first byte.
        size: number of bytes.

    Returns:
        The bytes, fewer if the object is shorter; None if the run is not in a store.

    Raises:
        StoreError: the store has no such object, or cannot be reached.
    """
    run = path.parents[2]
    remote = read_remote(run)
    if remote is None:
        return None
    return open_store(remote.url).get(path.relative_to(run).as_posix(), offset, size)
