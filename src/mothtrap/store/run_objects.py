"""Access to a run as an object store, even if the run is in a folder."""

from __future__ import annotations

from pathlib import Path

from mothtrap.store.objects import Store, open_store
from mothtrap.store.remote import read_remote


def store_of(run: Path) -> Store:
    """Return the store of a run: from its URL for a mirror, otherwise its folder."""
    remote = read_remote(run)
    if remote is not None and remote.role == "mirror":
        return open_store(remote.url)
    return open_store(run.absolute().as_uri())


def is_mirror(run: Path) -> bool:
    """Return whether a folder is the mirror of a run in an object store."""
    remote = read_remote(run)
    return remote is not None and remote.role == "mirror"
