"""Stored results of rules on a whole run: `RUN/analyses/<key>.json`, written once.

The key is a digest of everything that a result depends on. So every process that computes the
result writes the same bytes, and an existing result need not be computed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import xxhash

from mothtrap.core.errors import ObjectExistsError, ObjectNotFoundError, StoreError
from mothtrap.store import layout
from mothtrap.store.run_objects import store_of

FOLDER = "analyses"


def content_digest(run: Path) -> str:
    """Return a digest of the names and sizes of the workers' files."""
    digest = xxhash.xxh3_128()
    for number in layout.attempts(run):
        attempt = layout.attempt_folder(run, number)
        for rank in layout.workers(attempt):
            for path in sorted(layout.worker_folder(attempt, rank).glob("*-*.arrow")):
                with suppress(FileNotFoundError):  # compacted in the meantime
                    digest.update(f"{number}/{rank}/{path.name}:{path.stat().st_size}\n".encode())
    return digest.hexdigest()


def key_of(parts: Iterable[str]) -> str:
    """Return the key of a result that depends on `parts`."""
    return xxhash.xxh3_128_hexdigest("\0".join(parts).encode("utf-8", "replace"))


def put_analysis(run: Path, key: str, data: bytes) -> None:
    """Store a result unless a result is already stored.

    Raises:
        StoreError: the folder or the object store cannot be written.
    """
    with suppress(ObjectExistsError):
        store_of(run).put_if_absent(f"{FOLDER}/{key}.json", data)


def get_analysis(run: Path, key: str) -> bytes | None:
    """Return a stored result; None if no result is stored, or it cannot be read."""
    with suppress(ObjectNotFoundError, StoreError):
        return store_of(run).get(f"{FOLDER}/{key}.json")
    return None
