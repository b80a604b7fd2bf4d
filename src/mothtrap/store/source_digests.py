"""Digests of source files, which show whether a file has changed since the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import xxhash

from mothtrap.core.ledger import LedgerValue

MAX_SOURCE_BYTES = 4 << 20
"""Maximum size of a file with a digest; chosen by hand."""


def digests_of(paths: Iterable[str], folder: Path) -> dict[str, LedgerValue]:
    """Return digests of the readable files, by path relative to a folder."""
    found: dict[str, LedgerValue] = {}
    for path in paths:
        digest = digest_of(folder / path)
        if digest is not None:
            found[path] = digest
    return found


def digest_of(path: Path) -> str | None:
    """Return the digest of a file; None if it is not a file, too large, or unreadable.

    Paths may come from another user's ledger, and reading a device might never end.
    """
    try:
        if path.is_file() and path.stat().st_size <= MAX_SOURCE_BYTES:
            return xxhash.xxh3_64_hexdigest(path.read_bytes())
    except (OSError, ValueError):  # ValueError: a NUL in the path
        pass
    return None
