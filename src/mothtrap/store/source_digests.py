"""Digests of source files: whether a file is as it was when a run noted it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import xxhash

from mothtrap.core.ledger import LedgerValue

MAX_SOURCE_BYTES = 4 << 20
"""Size of a file up to which it has a digest; chosen by hand."""


def digests_of(paths: Iterable[str], folder: Path) -> dict[str, LedgerValue]:
    """Return digests of files, relative to a folder, of those that can be read."""
    found: dict[str, LedgerValue] = {}
    for path in paths:
        digest = digest_of(folder / path)
        if digest is not None:
            found[path] = digest
    return found


def digest_of(path: Path) -> str | None:
    """Return the digest of a file; None of what is none, or too large, or cannot be read.

    Paths may come from a ledger of another user: a device would never end.
    """
    try:
        if path.is_file() and path.stat().st_size <= MAX_SOURCE_BYTES:
            return xxhash.xxh3_64_hexdigest(path.read_bytes())
    except (OSError, ValueError):  # ValueError: a NUL in the path
        pass
    return None
