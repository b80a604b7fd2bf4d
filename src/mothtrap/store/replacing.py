"""Atomic replacement of files: readers see the old or the new content."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write a file, replacing an existing file; raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    os.replace(draft, path)
