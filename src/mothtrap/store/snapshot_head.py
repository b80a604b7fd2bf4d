"""The description of a snapshot: its name, and its entries for the other files."""

from __future__ import annotations

import msgspec

HEAD = "snapshot.json"
MAX_HEAD_BYTES = 1 << 30
"""Most bytes of `snapshot.json` that are read; chosen by hand."""


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a snapshot: its size in bytes, and its checksum."""

    size: int
    xxh3_64: str
