"""The runs of a folder as rows of a table; a run that has ended is read once."""

from __future__ import annotations

import os
import queue
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from mothtrap.core.errors import RunNotFoundError, nearest
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.run_filter import Facts, read_filter
from mothtrap.monitor.stored.associations import Association, associations
from mothtrap.reader.run import Run
from mothtrap.reader.run_columns import as_csv
from mothtrap.store import find_runs, layout
from mothtrap.store.labels import FOLDER as LABELS
from mothtrap.store.objects import is_url
from mothtrap.store.run_fingerprint import fingerprint
from mothtrap.web.curve_cache import CurveCache, FoundCurve
from mothtrap.web.row_cache import Kept, ListedRun, Row, RowCache
from mothtrap.web.row_reading import read_listed
from mothtrap.web.run_columns import Column, columns_of, in_order
from mothtrap.web.run_curve import USUAL_BUCKETS, USUAL_SCALAR, about, curve_of

PAGE_ROWS = 200
MOST_ASSOCIATIONS = 30
"""Rows of the table of options and findings; chosen by hand."""
LOOK_S = 0.5
"""Longest wait of a request for unread runs; later requests get the others. By hand."""
LIST_EVERY_S = 1.0
"""Interval at which the folder is listed; chosen by hand."""
UNKNOWN_NS = 0
SETTLED_S = 2.0
"""Age from which a folder's change time proves that no entry was added; chosen by hand."""
LIVE_S = 2.0
"""Time for which the row of a running job is valid; chosen by hand."""
KEPT_AT_ONCE = 100
"""Number of rows that are written to the cache together; chosen by hand."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the table; `pending` counts rows that are not read yet, or must be read again.

    `columns` are the parameters and metrics of all rows that match.
    """

    folder: str
    total: int
    matching: int
    begin: int
    rows: list[Row]
    pending: int
    columns: tuple[Column, ...] = ()


class RunsFolder:
    """Lists the runs of one location.

    Args:
        where: a folder, the URL of an object store, or the folder of a single run.

    Attributes:
        curves: curves of runs that have ended.
    """

    def __init__(self, where: str) -> None:
        self._lock = threading.Lock()
        self.single = "" if is_url(where) or not layout.attempts(Path(where)) else Path(where).name
        self.where = where if is_url(where) else str(Path(where).absolute())
        if self.single:
            self.where = str(Path(self.where).parent)
        self._cache = RowCache(self.where)
        self.curves = CurveCache(self.where)
        kept = self._cache.read()
        self._rows = {
            name: _Read(found.signature, float("-inf"), found.listed.row)
            for name, found in kept.items()
            if not found.listed.row.pending
        }
        self._started = {
            name: (found.listed.row.started_s, Path(self.where) / name)
            for name, found in kept.items()
            if not is_url(where)
        }
        self._ordered: list[str] = []
        self._listed_s, self._listed_ns = float("-inf"), UNKNOWN_NS
        self._wanted: queue.LifoQueue[str] = queue.LifoQueue()
        self._waiting: set[str] = set()
        self._changed = threading.Condition()
        self._reader: threading.Thread | None = None
        self._closed = False

    def close(self) -> None:
        """Stop the thread that reads runs, after the current run."""
        self._closed = True
        self._wanted.put("")  # wakes the thread
        if self._reader is not None:
            self._reader.join()

    def path(self, name: str) -> Path:
        """Return the folder of a run by its name in the list.

        Raises:
            RunNotFoundError: the list has no such run; the message suggests one.
        """
        if name not in self._names():
            self._listed_s, self._listed_ns = float("-inf"), UNKNOWN_NS
        names = self._names()
        if name not in names:
            raise RunNotFoundError(
                f"there is no run {name!r} in {self.where}{nearest(name, names)}; it was removed "
                "or renamed, or never existed"
            )
        path = self._started[name][1]
        return (
            find_runs.find_run(f"{self.where}/{name}", self.where) if is_url(self.where) else path
        )

    def page(self, begin: int = 0, count: int = PAGE_ROWS, query: str = "", sort: str = "") -> Page:
        """Return rows from `begin` on; archived runs only if the query contains `archived`.

        A query with a comparison operator is an expression (see `core.run_filter`). Any other query
        contains words that occur in the name, verdict, state, script, findings, tags or group.

        Args:
            begin: first row.
            count: number of rows, at most `PAGE_ROWS`.
            query: filter of the runs; empty means all.
            sort: column to sort by, see `run_columns.in_order`; empty means the latest first.

        Raises:
            QueryError: the expression cannot be parsed, or the column does not exist.
        """
        names = self._names()
        begin, count = max(0, begin), min(count, PAGE_ROWS)
        if not (filtered := bool(query.split()) or bool(sort) or self._has_archived()):
            self._read(names[begin : begin + count])
            filtered = self._has_archived()
        if filtered:
            self._read([name for name in names if self._is_unread(name)])
            rows = [self._row(name) for name in names]
            matching = in_order(matching_rows(rows, query), sort)
            shown, found = matching[begin : begin + count], len(matching)
            self._read([row.name for row in shown])
            pending = self._count_pending(rows)
        else:
            matching = [read.row for name, read in [*self._rows.items()] if name in self._started]
            shown, found = [self._row(name) for name in names[begin : begin + count]], len(names)
            pending = self._count_pending(shown)
        return Page(
            folder=self.where,
            total=len(names),
            matching=found,
            begin=begin,
            rows=shown,
            pending=pending,
            columns=columns_of(matching),
        )

    def csv(self, query: str = "") -> str:
        """Return the matching rows as CSV; raises the same errors as `page`."""
        names = self._names()
        self._read([name for name in names if self._is_unread(name)])
        return as_csv([_plain(row) for row in matching_rows(map(self._row, names), query)])

    def associations(self, query: str = "") -> tuple[Association, ...]:
        """Return associations of options and findings in the matching rows; raises as `page`."""
        names = self._names()
        self._read([name for name in names if self._is_unread(name)])
        rows = matching_rows(map(self._row, names), query)
        known = [(row.parameters, row.faults) for row in rows if not row.pending and row.evaluated]
        return associations(known)[:MOST_ASSOCIATIONS]

    def _has_archived(self) -> bool:
        return any(read.row.archived for read in self._rows.values())

    def state(self) -> str:
        """Return a text that changes when a run appears, disappears, progresses or ends."""
        names = self._names()
        latest = [(name, _signature(self._started[name][1])) for name in names[:PAGE_ROWS]]
        return str(hash((tuple(names), tuple(latest))))

    def _names(self) -> list[str]:
        """Names of the runs, the latest start first; a folder that did not change is not listed."""
        with self._lock:
            if time.monotonic() - self._listed_s > LIST_EVERY_S:
                changed_ns = _changed_ns(self.where)
                if changed_ns == UNKNOWN_NS or changed_ns != self._listed_ns:
                    self._list(changed_ns)
                self._listed_s = time.monotonic()
            return self._ordered

    def _list(self, changed_ns: int) -> None:
        found = dict(_listed(self.where, self.single, self._started))
        runs = {name: start for name, start in found.items() if start is not None}
        new = [name for name in runs if name not in self._started]
        rows = [Row(name=name, started_s=runs[name][0], pending=True) for name in new]
        self._cache.write([Kept("", ListedRun(row=row)) for row in rows])
        self._started = runs
        self._ordered = sorted(runs, key=lambda name: (runs[name][0], name))[::-1]
        is_settled = time.time_ns() - changed_ns > SETTLED_S * 1e9 and len(runs) == len(found)
        self._listed_ns = changed_ns if is_settled else UNKNOWN_NS

    def _row(self, name: str) -> Row:
        known = self._rows.get(name)
        if known is not None:
            return known.row
        return Row(name=name, started_s=self._started.get(name, (0.0,))[0], pending=True)

    def _read(self, names: Sequence[str]) -> None:
        """Have rows read that are not known, or not any more; wait for them a little."""
        stale = {name for name in names if self._is_stale(name)}
        with self._changed:
            for name in reversed(names):  # the last name that is put is read first
                if name in stale and name not in self._waiting:
                    self._waiting.add(name)
                    self._wanted.put(name)
            if stale and self._reader is None:
                self._reader = threading.Thread(target=self._read_on, daemon=True)
                self._reader.start()
            self._changed.wait_for(lambda: not stale & self._waiting, LOOK_S)

    def _count_pending(self, rows: Iterable[Row]) -> int:
        """Count rows that are not read yet, or are older than their run."""
        return sum(row.pending or row.name in self._waiting for row in rows)

    def _is_unread(self, name: str) -> bool:
        """Return whether a row is unknown, may change at any time, or was not compared so far."""
        known = self._rows.get(name)
        return known is None or known.row.state == "running" or known.at_s == float("-inf")

    def _is_stale(self, name: str) -> bool:
        known = self._rows.get(name)
        if known is None or known.signature != fingerprint(self._started[name][1]).digest:
            return True
        if known.at_s == float("-inf"):
            self._rows[name] = known._replace(at_s=time.monotonic())
        return known.row.state == "running" and time.monotonic() - known.at_s > LIVE_S

    def _read_on(self) -> None:
        ended: list[Kept] = []
        curves: list[tuple[str, str, FoundCurve]] = []
        while True:
            name = self._wanted.get()
            if self._closed:
                return
            started_s, path = self._started.get(name, (0.0, Path(name)))
            look = fingerprint(path)

            def keep(run: Run, name: str = name, digest: str = look.digest) -> None:
                curves.append((name, digest, curve_of(run, USUAL_SCALAR, USUAL_BUCKETS)))

            listed = read_listed(name, path, started_s, look, keep)
            with self._changed:
                self._rows[name] = _Read(look.digest, time.monotonic(), listed.row)
                if listed.row.state != "running" and fingerprint(path).digest != look.digest:
                    self._wanted.put(name)  # for example labelled while it was read
                else:
                    self._waiting.discard(name)
                self._changed.notify_all()
            if listed.final:
                ended.append(Kept(look.digest, listed))
            if ended and (self._wanted.empty() or len(ended) >= KEPT_AT_ONCE):
                self._cache.write(ended)
                self.curves.write(about(USUAL_SCALAR, USUAL_BUCKETS), curves)
                ended.clear()
                curves.clear()


class _Read(NamedTuple):
    """A row, the fingerprint of its run, and when the two were compared (monotonic seconds).

    A row of the cache that was not compared so far has minus infinity.
    """

    signature: str
    at_s: float
    row: Row


def _changed_ns(where: str) -> int:
    """Return the time of the last change of a folder's entries.

    `UNKNOWN_NS` where it is unknown.
    """
    try:
        return UNKNOWN_NS if is_url(where) else os.stat(where).st_mtime_ns
    except OSError:
        return UNKNOWN_NS


def _listed(
    where: str, single: str, before: dict[str, tuple[float, Path]]
) -> Iterator[tuple[str, tuple[float, Path] | None]]:
    """Runs with their start and folder; None for a folder that may become a run."""
    if is_url(where):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a run that cannot be listed is left out
            for path in find_runs.list_runs(where):
                yield path.name, (layout.started(path)[0], path)
        return
    folder = Path(where)
    for name in [single] if single else os.listdir(folder):
        path = folder / name
        if name.startswith(".") or not _is_text(name):
            continue
        if name in before and (path / "1" / "run.json").is_file():
            yield name, before[name]
        elif layout.attempts(path):
            yield name, (layout.started(path)[0], path)
        elif path.is_dir():
            yield name, None


def _is_text(name: str) -> bool:
    """Return whether a name is valid UTF-8, so that it can be sent."""
    return name.encode("utf-8", "replace").decode() == name


def _signature(path: Path) -> str:
    """Return a text that changes as the run continues: its attempts, and the end of the latest."""
    try:
        entries = [entry.name for entry in os.scandir(path) if entry.name.isdecimal()]
        latest = path / max(entries, key=int, default="1")
        end = latest / "end.json"
        touched_s = end.stat().st_mtime if end.exists() else latest.stat().st_mtime
    except OSError:
        return ""
    return f"{len(entries)} {touched_s!r}{_labeled(path)}"


def _labeled(path: Path) -> str:
    try:
        return f" {(path / LABELS).stat().st_mtime_ns}"
    except OSError:
        return ""


def matching_rows(rows: Iterable[Row], query: str) -> list[Row]:
    """Return the rows that match a query; see `RunsFolder.page`."""
    words = query.lower().split()
    shown = [row for row in rows if not row.archived or "archived" in words]
    if any(sign in query for sign in "<>=~"):
        wanted = read_filter(query)
        return [row for row in shown if wanted.test(_facts(row))]
    return [row for row in shown if _matches(row, words)]


def _matches(row: Row, words: list[str]) -> bool:
    texts = (row.name, row.kind, row.verdict, row.ending, row.script, row.severity, row.group)
    text = " ".join((*texts, *row.tags, *row.findings)).lower()
    return all(word in text or (word == "archived" and row.archived) for word in words)


def _facts(row: Row) -> Facts:
    own: dict[str, LedgerValue] = {
        "run": row.name,
        "kind": row.kind,
        "state": row.state,
        "steps": row.steps,
        "verdict": row.verdict,
    }
    own |= {"script": row.script, "commit": row.commit, "group": row.group}
    values: dict[str, LedgerValue] = {**row.metrics, **row.parameters, **own}
    values |= {f"param.{name}": value for name, value in row.parameters.items()}
    values |= {f"metric.{name}": value for name, value in row.metrics.items()}
    return Facts(values=values, marks=(*row.findings, *row.tags))


def _plain(row: Row) -> dict[str, LedgerValue]:
    found: dict[str, LedgerValue] = {
        "run": row.name,
        "kind": row.kind,
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.started_s)),
        "state": row.ending or row.state,
        "steps": row.steps,
        "findings": " ".join(row.findings),
        "verdict": row.verdict,
        "tags": " ".join(row.tags),
        "group": row.group,
        "script": row.script,
        "commit": row.commit,
    }
    for name, value in row.parameters.items():
        found.setdefault(name, value)
    for name, number in row.metrics.items():
        found[name if name not in found else f"metric.{name}"] = number
    return found
