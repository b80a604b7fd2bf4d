"""Deliveries of messages, recorded before and after sending: `RUN/alerts/journal.jsonl`.

It contains one JSON object per line, written and synced completely. A delivery that was recorded
but not confirmed may or may not have arrived, so it is sent again with the same id.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.events import Event
from mothtrap.store.own_descriptors import OwnDescriptor
from mothtrap.store.plain_files import open_plain

FOLDER = "alerts"
FILE = "journal.jsonl"
MAX_BYTES = 64 << 20
"""Maximum size of a journal that is read; chosen by hand, about 30,000 messages."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the journal.

    `state` is `noted` before the first attempt, `sent` once it was confirmed, or `failed` if it
    cannot be delivered. `target` names one target of a reaction, without its address.
    """

    id: str
    state: Literal["noted", "sent", "failed"]
    time_s: float
    reaction: str = ""
    action: str = ""
    target: str = ""
    event: Event | None = None
    why: str = ""


class Journal:
    """The deliveries of a run; only one process at a time may write them.

    Args:
        run: folder of the run.
        part: part of the rules whose findings are reported; "" is all of them. Each part has a
            journal.

    Attributes:
        is_held: whether this process holds the journal and may write to it.
    """

    def __init__(self, run: Path, part: str = "") -> None:
        self._run, self._part = run, part
        self.path = journal_path(run, part)
        self.is_held = False
        self._file: OwnDescriptor | None = None
        self._write = threading.Lock()

    def hold(self) -> bool:
        """Acquire the journal for writing; return False if another process has it.

        Raises:
            OSError: it cannot be created or opened.
        """
        self.path.parent.mkdir(exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = OwnDescriptor(self.path, flags, 0o600)
        descriptor = file.number()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")  # line of a process that was killed while writing
        self._file, self.is_held = file, True
        return True

    def note(self, entry: Entry) -> None:
        """Write a line; it is on the disk when this returns.

        Raises:
            OSError: it could not be written.
        """
        if self._file is None:
            return
        with self._write:
            number = self._file.number()
            os.write(number, jsonable.encode(entry) + b"\n")
            os.fdatasync(number)

    def entries(self) -> tuple[Entry, ...]:
        """Return the readable lines, oldest first."""
        return read_journal(self._run, self._part)

    def close(self) -> None:
        """Release the journal for other processes."""
        if self._file is not None:
            self._file.close()
            self._file, self.is_held = None, False


def journal_path(run: Path, part: str = "") -> Path:
    """Return the file of the journal of a part of the rules."""
    return run / FOLDER / (f"journal-{part}.jsonl" if part else FILE)


def read_journal(run: Path, part: str = "") -> tuple[Entry, ...]:
    """Return the readable lines of a run's journal, oldest first."""
    try:
        return tuple(entry for entry in _entries(journal_path(run, part)) if entry is not None)
    except OSError:
        return ()


def journal_damage(run: Path) -> tuple[str, ...]:
    """Return a sentence if a run's journal, or a line of it, cannot be read."""
    path = run / FOLDER / FILE
    try:
        bad = sum(entry is None for entry in _entries(path))
    except FileNotFoundError:
        return ()
    except OSError as err:
        return (f"{path} cannot be read: {err.strerror}",)
    return (f"{path}: {bad} line{'s' * (bad != 1)} cannot be read",) if bad else ()


def _entries(path: Path) -> Iterator[Entry | None]:
    """Yield the lines of a journal, None for an unreadable line; raises OSError."""
    with os.fdopen(open_plain(path), "rb") as file:
        lines = file.read(MAX_BYTES).split(b"\n")
    for line in filter(None, lines):
        try:
            yield jsonable.decode(line, Entry)
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield None


def unconfirmed(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the deliveries that were recorded, but neither confirmed nor given up."""
    open_ones: dict[str, Entry] = {}
    for entry in entries:
        if entry.state == "noted" and entry.event is not None:
            open_ones.setdefault(entry.id, entry)
        elif entry.state != "noted":
            open_ones.pop(entry.id, None)
    return tuple(open_ones.values())
