"""The description of a snapshot: its name, and its entries for the other files."""

from __future__ import annotations

import msgspec

HEAD = "snapshot.json"
MAX_HEAD_BYTES = 1 << 30
"""Maximum size of `snapshot.json` that is read; chosen by hand."""


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a snapshot: its size in bytes, and its checksum."""

    size: int
    xxh3_64: str
