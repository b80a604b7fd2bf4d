"""The runs of a folder as rows of a table; a run that has ended is read once."""

from __future__ import annotations

import os
import queue
import shlex
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from mothtrap.core.errors import MothtrapError, RunNotFoundError, nearest
from mothtrap.core.findings import Severity
from mothtrap.reader.run import Run, open_run
from mothtrap.report.ending import ending_word
from mothtrap.report.summary import summarize
from mothtrap.store import layout, places
from mothtrap.store.objects import is_url
from mothtrap.web.known_rules import known_causes

PAGE_ROWS = 200
LOOK_S = 0.5
"""How long a request waits for runs to be read; the others come with later ones. By hand."""
LIST_EVERY_S = 1.0
"""How often the folder is listed; chosen by hand."""
LIVE_S = 2.0
"""How long the row of a running job holds; chosen by hand."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the table. Times are Unix seconds, 0 = unknown; `pending`: not read so far."""

    name: str
    started_s: float
    state: str = ""
    ending: str = ""
    severity: str = ""
    verdict: str = ""
    steps: int = 0
    active_s: float = 0.0
    script: str = ""
    commit: str = ""
    parameters: dict[str, str] = {}
    problem: str = ""
    pending: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the table, the latest start first; `pending` counts those to be asked again."""

    folder: str
    total: int
    matching: int
    begin: int
    rows: list[Row]
    pending: int


class RunsFolder:
    """Lists the runs of one place.

    Args:
        where: a folder, the URL of an object store, or the folder of a single run.
    """

    def __init__(self, where: str) -> None:
        self._lock = threading.Lock()
        self.single = "" if is_url(where) or not layout.attempts(Path(where)) else Path(where).name
        self.where = where if is_url(where) else str(Path(where).absolute())
        if self.single:
            self.where = str(Path(self.where).parent)
        self._started: dict[str, tuple[float, Path]] = {}
        self._listed_s = float("-inf")
        self._rows: dict[str, _Read] = {}
        self._wanted: queue.LifoQueue[str] = queue.LifoQueue()
        self._waiting: set[str] = set()
        self._changed = threading.Condition()
        self._reader: threading.Thread | None = None

    def path(self, name: str) -> Path:
        """Return the folder of a run by its name in the list.

        Raises:
            RunNotFoundError: the list has no such run; names the nearest.
        """
        if name not in self._names():
            self._listed_s = float("-inf")
        names = self._names()
        if name not in names:
            raise RunNotFoundError(
                f"there is no run {name!r} in {self.where}{nearest(name, names)}; it was removed, "
                "renamed or never there"
            )
        path = self._started[name][1]
        return places.find_run(f"{self.where}/{name}", self.where) if is_url(self.where) else path

    def page(self, begin: int = 0, count: int = PAGE_ROWS, query: str = "") -> Page:
        """Return rows from `begin` on; a query filters by name, verdict, state and script."""
        names = self._names()
        begin, count = max(0, begin), min(count, PAGE_ROWS)
        words = query.lower().split()
        self._read(names if words else names[begin : begin + count])
        if words:
            rows = [self._row(name) for name in names]
            matching = [row for row in rows if _matches(row, words)]
            shown, found = matching[begin : begin + count], len(matching)
            pending = sum(row.pending for row in rows)
        else:
            shown, found = [self._row(name) for name in names[begin : begin + count]], len(names)
            pending = sum(row.pending for row in shown)
        return Page(
            folder=self.where,
            total=len(names),
            matching=found,
            begin=begin,
            rows=shown,
            pending=pending,
        )

    def state(self) -> str:
        """Return a text that changes when a run comes, goes, moves on or ends."""
        names = self._names()
        latest = [(name, _signature(self._started[name][1])) for name in names[:PAGE_ROWS]]
        return str(hash((tuple(names), tuple(latest))))

    def _names(self) -> list[str]:
        """Names of the runs, the latest start first."""
        with self._lock:
            if time.monotonic() - self._listed_s > LIST_EVERY_S:
                self._started = dict(_listed(self.where, self.single, self._started))
                self._listed_s = time.monotonic()
            return sorted(self._started, key=lambda name: (self._started[name][0], name))[::-1]

    def _row(self, name: str) -> Row:
        known = self._rows.get(name)
        if known is not None:
            return known.row
        return Row(name=name, started_s=self._started.get(name, (0.0,))[0], pending=True)

    def _read(self, names: Sequence[str]) -> None:
        """Have rows read that are not known, or not any more; wait for them a little."""
        stale = {name for name in names if self._is_stale(name)}
        with self._changed:
            for name in reversed(names):  # the last one that is put is read first
                if name in stale and name not in self._waiting:
                    self._waiting.add(name)
                    self._wanted.put(name)
            if stale and self._reader is None:
                self._reader = threading.Thread(target=self._read_on, daemon=True)
                self._reader.start()
            self._changed.wait_for(lambda: not stale & self._waiting, LOOK_S)

    def _is_stale(self, name: str) -> bool:
        known = self._rows.get(name)
        if known is None or known.signature != _signature(self._started[name][1]):
            return True
        return known.row.state == "running" and time.monotonic() - known.at_s > LIVE_S

    def _read_on(self) -> None:
        while True:
            name = self._wanted.get()
            started_s, path = self._started.get(name, (0.0, Path(name)))
            signature = _signature(path)
            row = _read_row(name, path, started_s)
            with self._changed:
                self._rows[name] = _Read(signature, time.monotonic(), row)
                self._waiting.discard(name)
                self._changed.notify_all()


class _Read(NamedTuple):
    """A row, when it was read (monotonic seconds), and how the run's folder looked then."""

    signature: object
    at_s: float
    row: Row


def parameters_of(command: tuple[str, ...]) -> dict[str, str]:
    """Return the options of a command line, by their names without dashes."""
    found: dict[str, str] = {}
    words = list(command)
    for place, word in enumerate(words):
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        following = words[place + 1] if place + 1 < len(words) else ""
        if not equals:
            value = following if following and not following.startswith("--") else "yes"
        found[name] = value
    return found


def script_of(command: tuple[str, ...]) -> str:
    """Return the script or module of a command line, else its first word."""
    for place, word in enumerate(command):
        if word.endswith(".py"):
            return Path(word).name
        if word == "-m" and place + 1 < len(command):
            return command[place + 1]
    return Path(command[0]).name if command else ""


def shown_command(command: tuple[str, ...]) -> str:
    """Return a command line as it is typed; of Python the name alone."""
    words = [Path(command[0]).name, *command[1:]] if command else []
    return shlex.join(words)


def last_activity_s(run: Run) -> float:
    """Return Unix time of the newest record, 0 before the first."""
    parts = [part for worker in run.workers for part in run.parts(worker)]
    ends = [float(part.view.commits.wall_s[-1]) for part in parts if len(part.view.commits)]
    return max(ends, default=0.0)


def _listed(
    where: str, single: str, before: dict[str, tuple[float, Path]]
) -> Iterator[tuple[str, tuple[float, Path]]]:
    if is_url(where):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a run that cannot be listed is left out
            for path in places.list_runs(where):
                yield path.name, (layout.started(path)[0], path)
        return
    folder = Path(where)
    for name in [single] if single else os.listdir(folder):
        path = folder / name
        if name.startswith("."):
            continue
        if name in before and (path / "1" / "run.json").is_file():
            yield name, before[name]
        elif layout.attempts(path):
            yield name, (layout.started(path)[0], path)


def _signature(path: Path) -> object:
    """What changes in a folder when its run goes on: its attempts, and how the latest ended."""
    try:
        entries = [entry.name for entry in os.scandir(path) if entry.name.isdecimal()]
        latest = path / max(entries, key=int, default="1")
        end = latest / "end.json"
        touched_s = end.stat().st_mtime if end.exists() else latest.stat().st_mtime
    except OSError:
        return None
    return len(entries), touched_s


def _matches(row: Row, words: list[str]) -> bool:
    text = f"{row.name} {row.verdict} {row.ending} {row.script} {row.severity}".lower()
    return all(word in text for word in words)


def _read_row(name: str, path: Path, started_s: float) -> Row:
    try:
        run = open_run(path)
        summary = summarize(run, known_causes())
    except Exception as err:  # one run that cannot be read must not keep the others from the list
        return Row(name=name, started_s=started_s, state="unreadable", problem=str(err))
    command = run.info.command if run.info else ()
    worst = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    return Row(
        name=name,
        started_s=run.info.created_s if run.info else started_s,
        state=run.state,
        ending=ending_word(run),
        severity=worst.value if worst is not None and worst is not Severity.INFO else "",
        verdict=summary.verdict,
        steps=run.steps,
        active_s=last_activity_s(run),
        script=script_of(command),
        commit=_commit(run),
        parameters=parameters_of(command),
    )


def _commit(run: Run) -> str:
    try:
        source = run.source
    except MothtrapError:
        return ""
    return source.commit[:8] + ("+" if source.changed_count else "") if source else ""
