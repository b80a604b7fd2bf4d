"""Answers about runs that have ended, in the cache: a long run is read once, not at each start."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from mothtrap.core.own_version import own_version
from mothtrap.store.remote import cache_folder
from mothtrap.store.replacing import replace

FORMAT = 7
"""Grows when the same mothtrap would answer differently."""
MAX_BYTES = 1 << 20
"""Of an answer that is kept; chosen by hand: names of 20,000 tensors."""
MOST = 500
"""Answers that are kept, together at most 500 MB and mostly 5; chosen by hand."""
_DIGEST_BYTES = 16


class AnswerCache:
    """Cached answers, by run and request. If the cache is unusable, answers are not cached."""

    def __init__(self) -> None:
        self._folder = cache_folder() / "ui" / "answers"
        self._of = f"{own_version()}\0{FORMAT}\0{os.getcwd()}"

    def read(self, run: Path, about: str, traces: bytes) -> bytes | None:
        """Return a cached answer; None if no answer is cached, or if the run has changed since.

        Args:
            run: its folder.
            about: the query.
            traces: traces of the run now, see `traces_of`.
        """
        try:
            kept = self._file(run, about).read_bytes()
        except OSError:
            return None
        return kept[len(traces) :] if traces and kept.startswith(traces) else None

    def write(self, run: Path, about: str, traces: bytes, answer: bytes) -> None:
        """Cache an answer, replacing the oldest answer if there are too many."""
        if not traces or len(answer) > MAX_BYTES:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace(self._file(run, about), traces + answer)
            kept = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in kept[:-MOST]:
                path.unlink(missing_ok=True)

    def _file(self, run: Path, about: str) -> Path:
        name = f"{self._of}\0{run}\0{about}".encode("utf-8", "surrogateescape")
        return self._folder / hashlib.sha256(name).hexdigest()


def traces_of(run: Path) -> bytes:
    """Return a digest that changes when anything in a run's folder is added, written or removed.

    For each table, only the newest file is checked, because the others no longer grow. Empty if
    there is no such folder.
    """
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    try:
        for text in _traces(run, depth=2):
            found.update(text.encode("utf-8", "surrogateescape"))
    except OSError:
        return b""
    return found.digest()


def _traces(folder: Path, depth: int) -> Iterator[str]:
    newest: dict[str, str] = {}
    names = sorted(os.listdir(folder))
    yield f"{folder.stat().st_mtime_ns} {len(names)}\n"
    for name in names:
        if name.endswith(".arrow"):
            newest[name.rpartition("-")[0]] = name
        elif depth and (folder / name).is_dir():
            yield from _traces(folder / name, depth - 1)
        else:
            newest[name] = name
    for name in newest.values():
        about = (folder / name).stat()
        yield f"{name} {about.st_mtime_ns} {about.st_size}\n"
