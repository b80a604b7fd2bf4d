"""Rows of runs in the user's cache: ten thousand are read once, not at each start.

Both the page and `mothtrap ls` read and write this cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from mothtrap.core import jsonable, registry
from mothtrap.core.ledger import LedgerValue
from mothtrap.store.layout import intact, sealed
from mothtrap.web.cache_file import CACHE_ERRORS, CacheFile

FORMAT = 9
"""Grows when rows of the same mothtrap would be made differently."""
RULES = "mothtrap.rules"
_SCHEMA = "create table if not exists rows (name text primary key, signature text, row blob)"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the table. Times are Unix seconds, 0 = unknown.

    `size` describes the size of the run in words. `faults` are codes and names of rules that found
    more than notes. `evaluated`: rules were evaluated, in the job or by a monitor. `pending`: not
    read so far. `ended`: its end was stored, so the row no longer changes.
    """

    name: str
    started_s: float
    kind: str = "train"
    state: str = ""
    ending: str = ""
    severity: str = ""
    verdict: str = ""
    steps: int = 0
    size: str = ""
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


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list: its row on the page, and the fields that only `mothtrap ls` shows.

    `run` is `report.summary.RunFacts` as plain data. `codes` and `names` are the codes and names of
    the findings. `parameters` lack the options of the command, which `row.parameters` include.
    `columns` are the first columns of the CSV. `final`: the row does not change as long as the
    files stay the same.
    """

    row: Row
    run: dict[str, object] = {}
    damage: tuple[str, ...] = ()
    errors: int = 0
    warnings: int = 0
    codes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    parameters: dict[str, LedgerValue] = {}
    columns: dict[str, LedgerValue] = {}
    final: bool = False


class Kept(NamedTuple):
    """A listed run, and the fingerprint of its files when it was read."""

    signature: str
    listed: ListedRun


class RowCache:
    """Cached rows of one location of runs. If the cache is unusable, rows are not cached.

    Args:
        where: the location.
    """

    def __init__(self, where: str) -> None:
        plugins = {part.origin for part in registry.parts(RULES)}  # they define causes
        self._file = CacheFile((where, str(FORMAT), *sorted(plugins)), "rows", _SCHEMA)

    def read(self) -> dict[str, Kept]:
        """Return the cached rows, by name of the run."""
        kept = {}
        with suppress(*CACHE_ERRORS), self._file.opened() as database:
            for name, signature, row in database.execute("select name, signature, row from rows"):
                with suppress(msgspec.DecodeError, TypeError):
                    if intact(row):
                        kept[name] = Kept(signature, jsonable.decode(row, ListedRun))
        return kept

    def write(self, kept: Sequence[Kept], gone: Collection[str] = ()) -> None:
        """Cache rows, replacing older rows of the same runs, and remove the rows of `gone`."""
        if not kept and not gone:
            return
        values = [(k.listed.row.name, k.signature, sealed(jsonable.encode(k.listed))) for k in kept]
        with suppress(*CACHE_ERRORS), self._file.opened() as database:
            database.executemany("delete from rows where name = ?", [(name,) for name in gone])
            database.executemany("insert or replace into rows values (?, ?, ?)", values)
