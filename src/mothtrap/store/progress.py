"""A progress bar for long reads or work; invisible without a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONG_BYTES = 256 << 20
"""Size that takes about a second to read from a disk; chosen by hand."""
_SHOWN = threading.Lock()
"""Lock held by the visible bar, because two bars would overwrite each other."""


@contextmanager
def progress(
    what: str, size_bytes: Callable[[], int], parts: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Show the progress of reading if it takes long and there is a terminal.

    Args:
        what: description of the work, e.g. `reading stats of w0`.
        size_bytes: returns the total number of bytes to read; called only on a terminal.
        parts: number of parts to count; None counts bytes.

    Yields:
        A function that takes the number of bytes, or parts, that are done.
    """
    size = size_bytes() if _has_reader() else 0
    with _shown(what, size if parts is None else parts, is_long=size >= LONG_BYTES) as told:
        yield told


@contextmanager
def counting(what: str, parts: int, *, long_parts: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of work that is counted in parts, if it takes long on a terminal.

    Args:
        what: description of the work, e.g. `judging w0`.
        parts: total number of parts.
        long_parts: number of parts from which it is long.

    Yields:
        A function that takes the number of parts that are done.
    """
    is_long = parts >= long_parts and _has_reader()
    with _shown(what, parts, is_long=is_long) as told:
        yield told


def _has_reader() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def _shown(what: str, total: int, *, is_long: bool) -> Iterator[Callable[[int], None]]:
    if not is_long or not _SHOWN.acquire(blocking=False):
        yield unreported
        return
    try:
        with _bar(what, total) as told:
            yield told
    finally:
        _SHOWN.release()


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        shown = 0

        def told(done: int) -> None:
            nonlocal shown
            if done != shown:  # there may be many small parts
                shown = done
                bar.update(task, completed=done)

        yield told


def unreported(_done: int) -> None:
    """Ignore progress, because there is no terminal."""


def size_of(folder: Path, kind: str) -> int:
    """Return the size of the readable segments of one kind in a worker's folder, in bytes."""
    sizes = 0
    for path in folder.glob(f"{kind}-*.arrow"):
        with suppress(OSError):
            sizes += path.stat().st_size
    return sizes
