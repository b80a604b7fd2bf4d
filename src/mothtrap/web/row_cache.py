"""Rows of ended runs in the user's cache: ten thousand are read once, not at each start."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

from mothtrap.core.ledger import LedgerValue
from mothtrap.store.remote import cache_folder

FORMAT = 5
"""Grows when rows of the same mothtrap would be made differently."""
_SCHEMA = "create table if not exists rows (name text primary key, signature text, row blob)"
_FAILURES = (OSError, sqlite3.Error, msgspec.DecodeError)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the table. Times are Unix seconds, 0 = unknown.

    `faults` are codes and names of rules that found more than notes. `evaluated`: rules were
    evaluated, in the job or by a monitor. `pending`: not read so far. `ended`: its end was stored,
    so that nothing changes any more.
    """

    name: str
    started_s: float
    kind: str = "train"
    state: str = ""
    ending: str = ""
    severity: str = ""
    verdict: str = ""
    steps: int = 0
    active_s: float = 0.0
    script: str = ""
    commit: str = ""
    parameters: dict[str, LedgerValue] = {}
    metrics: dict[str, float] = {}
    findings: tuple[str, ...] = ()
    faults: dict[str, str] = {}
    evaluated: bool = True
    tags: tuple[str, ...] = ()
    group: str = ""
    archived: bool = False
    problem: str = ""
    pending: bool = False
    ended: bool = False


class Kept(NamedTuple):
    """A row, and how the run's folder looked when it was read."""

    signature: str
    row: Row


class RowCache:
    """The rows of one place of runs. Where the cache cannot be used, nothing is kept.

    Args:
        where: the place.
    """

    def __init__(self, where: str) -> None:
        of = f"{where}\0{version('mothtrap')}\0{FORMAT}"
        name = f"{hashlib.sha256(of.encode()).hexdigest()[:16]}.rows"
        self._file = cache_folder() / "ui" / name

    def read(self) -> dict[str, Kept]:
        """Return what is kept, by the name of the run."""
        decoder = msgspec.json.Decoder(Row)
        with suppress(*_FAILURES), self._opened() as database:
            found = database.execute("select name, signature, row from rows")
            return {name: Kept(signature, decoder.decode(row)) for name, signature, row in found}
        return {}

    def write(self, kept: Sequence[Kept]) -> None:
        """Keep rows, in the place of older ones of the same runs."""
        with suppress(*_FAILURES), self._opened() as database:
            values = [(k.row.name, k.signature, msgspec.json.encode(k.row)) for k in kept]
            database.executemany("insert or replace into rows values (?, ?, ?)", values)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with closing(_connected(self._file)) as database, database:
            yield database


def _connected(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=1.0)
    file.chmod(0o600)
    database.execute("pragma synchronous = off")  # what a crash takes is read again
    database.execute(_SCHEMA)
    return database
