"""Interface of an object store: keys and bytes; each object is written once and completely."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from mothtrap.core import registry
from mothtrap.core.errors import ConfigError, nearest

BACKENDS = "mothtrap.store.backends"
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_SLIP = re.compile(r"(s3|file):/")
_ESCAPED = "file://"
"""URL schemes in which `%20` is a space, as in `Path.as_uri`; other URLs are not decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object: its key below the store's URL, size in bytes, and Unix time of writing."""

    key: str
    size: int
    modified_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Direct children of a folder of keys: names of folders, and objects; both sorted."""

    folders: tuple[str, ...]
    objects: tuple[ObjectInfo, ...]


class Store(Protocol):
    """A location below a URL. Keys are relative to it, with `/` between their parts.

    Every method raises `StoreRefusedError` if credentials, permissions or the bucket are wrong, and
    `StoreError` if the store cannot be reached or fails.
    """

    def put_if_absent(self, key: str, data: bytes | Path) -> None:
        """Write an object atomically; if `data` is a path, write the content of that file.

        Raises:
            ObjectExistsError: the key has an object.
        """

    def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        """Read `size` bytes from `start`, fewer at the end; None = the rest of the object.

        Raises:
            ObjectNotFoundError: the object does not exist.
        """

    def fetch(self, key: str, path: Path) -> None:
        """Write an object to a file, without holding a large object in memory.

        Raises:
            ObjectNotFoundError: the object does not exist.
            OSError: the disk rejected the write.
        """

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a folder with a key after `after`, ascending."""

    def children(self, folder: str) -> Children:
        """Return the entries of a folder; "" is the top."""

    def delete(self, key: str) -> None:
        """Remove an object; a missing object is not an error."""


def is_url(where: object) -> bool:
    """Return whether a location requires an object store."""
    return isinstance(where, str) and _URL.match(where) is not None


def is_slip(where: object) -> bool:
    """Return whether a text is a URL with a missing slash instead of the name of a folder."""
    return not is_url(where) and isinstance(where, str) and _SLIP.match(where) is not None


def join(url: str, name: str) -> str:
    """Return the URL of `name` below `url`."""
    escaped = name.replace("%", "%25") if url.startswith(_ESCAPED) else name
    return f"{url.rstrip('/')}/{escaped}"


def split(url: str) -> tuple[str, str]:
    """Split a URL into its parent and last part, e.g. the location of runs and a run's name."""
    head, _, name = url.rstrip("/").rpartition("/")
    return head, unquote(name) if url.startswith(_ESCAPED) else name


@functools.lru_cache(maxsize=64)
def open_store(url: str) -> Store:
    """Return the store at a URL, without connecting yet. Connections are shared by URL.

    Raises:
        ConfigError: the scheme is unknown, its package is missing, or the URL is invalid.
    """
    match = _URL.match(url)
    scheme = match.group(1) if match else ""
    name = {"file": "local"}.get(scheme, scheme)
    known = registry.names(BACKENDS)
    if name not in known:
        schemes = [{"local": "file"}.get(k, k) for k in known]
        raise ConfigError(
            f"cannot use {url!r}: no object store has the scheme {scheme!r}"
            f"{nearest(scheme, schemes)}; schemes: " + ", ".join(f"{s}://" for s in schemes)
        )
    store: Store = registry.load(BACKENDS, name).open_store(url)
    return store
