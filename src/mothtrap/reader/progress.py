"""A bar on the terminal while much is read; nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LONG_BYTES = 256 << 20
"""What takes about a second from a disk; chosen by hand."""


def shown(parts: Iterable[T], folder: Path, kind: str) -> Iterator[T]:
    """Yield parts as they are read; show how far it is, on a terminal, if that is long.

    Args:
        parts: what comes of the segments of one kind, one part of each at least.
        folder: of the segments.
        kind: of the segments.
    """
    sizes = _sizes(folder, kind) if sys.stderr.isatty() else []
    if sum(sizes) < LONG_BYTES:
        yield from parts
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {kind} of {folder.name}", total=len(sizes))
        for part in parts:
            progress.advance(task)
            yield part


def _sizes(folder: Path, kind: str) -> list[int]:
    return [path.stat().st_size for path in folder.glob(f"{kind}-*.arrow")]
