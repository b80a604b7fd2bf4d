"""Fetch a run from an object store into a local folder of the same layout, as it grows.

Segments of tensors remain in the store: `raw_reading` fetches the byte range of a single tensor.
Nothing is fetched twice, and known keys are not listed again.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from mothtrap.core.errors import (
    DamagedDataError,
    ObjectNotFoundError,
    OddKeyError,
    RunNotFoundError,
    StoreError,
    StoreRefusedError,
    nearest,
)
from mothtrap.store import control_inbox, fetching, layout, node_log
from mothtrap.store.layout import TABLES_OF_STEPS, TIMED
from mothtrap.store.mirror_cache import Use
from mothtrap.store.node_mirror import NodeMirror, node_folders
from mothtrap.store.objects import ObjectInfo, Store, is_url, join, open_store, split
from mothtrap.store.remote import Remote, mirror_folder, read_remote, write_remote
from mothtrap.store.replacing import replace

FETCHED = tuple(table for table in TABLES_OF_STEPS if table != "raw")
FOR_A_LIST: tuple[str, ...] = ("scalars",)
"""Files needed for a run's line in a list, in addition to events and findings."""
FETCH_EVERY_S = 0.5
"""Interval between reads of the store for a reader that follows a run; chosen by hand."""
LISTS_A_LOOK = 10
"""Number of list requests per read; a read with more is followed by a proportionally longer pause.
So there are never more than 20 requests per second, which cost a third of a dollar per hour on S3.
"""
NODES_S = 10.0
"""Time for which only the manifests of nodes are listed, once all nodes are known: the other
folders hold requests to the job and findings of monitors. Chosen by hand."""
EARLIER_EVERY_S = 30.0
"""Interval at which an earlier attempt is read after it has not grown for the same time; chosen by
hand.
"""
_LOGS = ("events", "findings", "rows", "failing", node_log.TABLE)
"""Tables of a manifest that every reader fetches."""
_DESCRIPTION = f"{layout.FIRST_ATTEMPT}/run.json"
_RECORDER = re.compile(r"[wm](0|[1-9][0-9]{0,8})")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,8}")


class StaleRunWarning(UserWarning):
    """A run is shown as of the last time its store could be reached."""


class LeftOutWarning(UserWarning):
    """A run is missing from a list, because its store does not show which objects belong to it."""


class Mirror:
    """A run in an object store, and the folder that it is fetched to.

    Args:
        url: URL of the run.
        folder: local folder; created if it does not exist, and not removed while this object
            exists.
        whole: whether to fetch the statistics of tensors, too.

    Attributes:
        grew: whether new data was fetched.
        unheard_s: `time.monotonic()` of the last time when the store could not be reached.
    """

    def __init__(self, url: str, folder: Path, *, whole: bool = True) -> None:
        self.folder = folder
        self.grew = False
        self._url = url
        self._use = Use(folder)
        remote = Remote(url=url, role="mirror", whole=whole)
        if _known(folder) != remote:
            write_remote(folder, remote)
        self._store: Store = open_store(url)
        self._whole, self._tables = whole, FETCHED if whole else FOR_A_LIST
        self._complete: set[str] = set()
        self._next_s = self.unheard_s = float("-inf")
        self._news_s: dict[str, float] = {}
        self._looked_s: dict[str, float] = {}
        self._lists = 0
        self._warned = False
        self._nodes: dict[str, NodeMirror] = {}
        self._listed_s = float("-inf")

    def refresh(self, *, at_once: bool = False) -> None:
        """Fetch new data, after a pause: see `FETCH_EVERY_S` and `LISTS_A_LOOK`.

        If the store cannot be reached, the mirror stays unchanged, with a warning.

        Args:
            at_once: do not pause.

        Raises:
            StoreRefusedError: credentials, permissions or the bucket are wrong, or the run
                was removed and another has its name.
        """
        if not at_once and time.monotonic() < self._next_s:
            return
        try:
            self.sync()
            self._warned = False
        except StoreRefusedError:
            raise
        except StoreError as err:
            self.unheard_s = time.monotonic()
            if not self._warned:
                self._warned = True
                warnings.warn(
                    (f"{err}; the last known state of the run is shown"),
                    StaleRunWarning,
                    stacklevel=3,
                )
        finally:
            pause_s = FETCH_EVERY_S * max(1.0, self._lists / LISTS_A_LOOK)
            self._next_s = time.monotonic() + pause_s

    def sync(self) -> None:
        """Fetch new data.

        Raises:
            StoreError: the store cannot be reached; all fetched files are complete.
        """
        self._use.mark()
        if self._sync_nodes():
            return
        self._lists = 1
        folders = self._store.children("").folders
        if control_inbox.FOLDER in folders:
            self._lists += 1
            control_inbox.fetch(self._store, self.folder)
        attempts = sorted(filter(_ATTEMPT.fullmatch, folders), key=int)
        now_s = time.monotonic()
        for attempt in attempts:
            # Fetch the end first: everything written before it is then found below.
            here = self._store.children(attempt)
            self._lists += 1
            self._refuse_another(here.objects)
            latest = attempt == attempts[-1]
            if latest or self._is_due(attempt, now_s):
                has_ended = any(info.key.endswith("/end.json") for info in here.objects)
                news = self._take_nodes(attempt, here.folders, at_once=has_ended or not latest)
                owned = self._nodes[attempt].owned if attempt in self._nodes else ()
                others = [f for f in _recorders(attempt, here.folders) if f not in owned]
                news = self._sync_attempt(others, here.objects) or news
                self._looked_s[attempt] = now_s
                if latest or news:
                    self._news_s[attempt] = now_s
        self._listed_s = time.monotonic()

    def _sync_nodes(self) -> bool:
        """Fetch the objects in the manifests if these are complete; otherwise return False."""
        latest = self._nodes[max(self._nodes, key=int)] if self._nodes else None
        if latest is None or not latest.has_all:
            return False
        if time.monotonic() - self._listed_s >= NODES_S:
            return False
        self.grew = latest.fetch() or self.grew
        self._lists = latest.requests
        return True

    def _take_nodes(self, attempt: str, names: Sequence[str], *, at_once: bool) -> bool:
        """Fetch the data that the nodes of an attempt have sent; return whether there was any.

        Args:
            attempt: folder of the attempt.
            names: folders in the attempt.
            at_once: fetch now; otherwise, if all nodes are known, in the next call, which lists
                only them.
        """
        nodes = self._nodes.get(attempt)
        for folder in node_folders(attempt, names):
            if nodes is None:
                nodes = self._nodes[attempt] = NodeMirror(self._store, self.folder, self._fetches)
            nodes.add(folder)
        is_first = self._listed_s == float("-inf")
        if nodes is None or (nodes.has_all and not at_once and not is_first):
            return False
        found = nodes.fetch()
        self._lists += nodes.requests
        self.grew = self.grew or found
        return found

    def _fetches(self, key: str) -> bool:
        """Return whether an object is ever fetched."""
        name = key.rpartition("/")[2]
        table = name.rpartition("-")[0]
        if not name.endswith(".arrow") or table in _LOGS:
            return True
        return table in self._tables or (self._whole and table.startswith(TIMED))

    def _is_due(self, attempt: str, now_s: float) -> bool:
        """Return whether to inspect an attempt before the latest attempt.

        Such an attempt is inspected often while it grows.
        """
        never = float("-inf")
        fresh = now_s < self._news_s.get(attempt, never) + EARLIER_EVERY_S
        return fresh or now_s >= self._looked_s.get(attempt, never) + EARLIER_EVERY_S

    def _sync_attempt(self, folders: Sequence[str], objects: Sequence[ObjectInfo]) -> bool:
        """Fetch new objects of an attempt; return whether there were any."""
        self._lists += len(folders)
        with ThreadPoolExecutor(fetching.AT_ONCE) as pool:
            found = list(pool.map(self._new_of, folders))
        self._bring(found)
        for folder, infos in zip(folders, found, strict=True):
            if _is_worker(folder) and (infos or folder not in self._complete):
                self._fetch_once(f"{folder}/{layout.LEDGER}")
                if folder.endswith("/w0"):  # no other process writes it
                    self._fetch_once(f"{folder}/{layout.PACKAGES}")
                    self._fetch_once(f"{folder}/{layout.SOURCES}")
        self._complete.update(folders)
        for info in sorted(objects, key=lambda info: info.key.endswith("/end.json")):
            if not self._is_current(info):
                # it was just replaced, so it will be listed again
                with suppress(ObjectNotFoundError):
                    self._bring([[info]])
        return any(found)

    def _bring(self, lists: Sequence[Sequence[ObjectInfo]]) -> None:
        self.grew = self.grew or any(lists)
        fetching.bring(self._store, lists, self.folder)

    def _refuse_another(self, found: Sequence[ObjectInfo]) -> None:
        """Refuse to fetch a run that was created later under the name of this run."""
        kept = self.folder / _DESCRIPTION
        for info in found:
            if info.key != _DESCRIPTION or self._is_current(info) or not kept.exists():
                continue
            if self._store.get(info.key) != kept.read_bytes():
                raise StoreRefusedError(
                    f"another run has replaced the run at {self._url}; open it again to read the "
                    "new one"
                )

    def _is_current(self, info: ObjectInfo) -> bool:
        """Return whether a file is the current version of the object."""
        try:
            status = (self.folder / info.key).stat()
        except FileNotFoundError:
            return False
        return (status.st_size, status.st_mtime) == (info.size, info.modified_s)

    def _new_of(self, folder: str) -> list[ObjectInfo]:
        """Return the objects of a worker or monitor that the mirror lacks.

        The marker object comes last.
        """
        commits = list(self._unseen(folder, "events" if _is_worker(folder) else "findings"))
        if not _is_worker(folder) or (not commits and folder in self._complete):
            return commits
        contents = [info for table in self._tables for info in self._unseen(folder, table)]
        return [*contents, *(self._unseen_timed(folder) if self._whole else ()), *commits]

    def _fetch_once(self, key: str) -> None:
        """Fetch a file that is written at most once, and early."""
        path = self.folder / key
        if path.exists() or not path.parent.is_dir():
            return
        with suppress(ObjectNotFoundError):
            replace(path, self._store.get(key))

    def _unseen_timed(self, folder: str) -> Iterator[ObjectInfo]:
        """Return segments of time-indexed tables, recognized by their names."""
        prefix = f"{folder}/{TIMED}"
        found = takewhile(lambda i: i.key.startswith(prefix), self._store.list(folder, prefix))
        return (info for info in found if not (self.folder / info.key).exists())

    def _unseen(self, folder: str, table: str) -> Iterator[ObjectInfo]:
        prefix = f"{folder}/{table}-"
        local = layout.segments(self.folder / folder, table)
        last = layout.segment_path(Path(folder), table, local[-1]) if local else None
        after = last.as_posix() if last is not None else prefix
        found = self._store.list(folder, after)
        return takewhile(lambda info: info.key.startswith(prefix), found)


def _is_worker(folder: str) -> bool:
    """Return whether this is the folder of a worker; folders of monitors contain only findings."""
    return folder.rpartition("/")[2].startswith("w")


def _recorders(attempt: str, names: Sequence[str]) -> list[str]:
    return [f"{attempt}/{name}" for name in names if _RECORDER.fullmatch(name)]


def open_mirror(url: str, *, whole: bool = True) -> Mirror:
    """Fetch a run into a local folder, which can then be read like a run on this machine.

    Args:
        url: URL of the run.
        whole: also fetch the statistics of tensors; existing ones are updated in any case.

    Raises:
        RunNotFoundError: there is no run at `url`; the message suggests one.
        StoreError: the store cannot be reached, or rejects the request.
    """
    plain = url.rstrip("/")
    try:
        description = open_store(plain).get(_DESCRIPTION)
    except ObjectNotFoundError as err:
        raise RunNotFoundError(f"no run found at {plain}{_instead(plain)}") from err
    folder = mirror_folder(plain, description)
    known = _known(folder)
    mirror = Mirror(plain, folder, whole=whole or (known is not None and known.whole))
    mirror.sync()
    return mirror


def _instead(url: str) -> str:
    """Describe the runs in or next to a location without a run."""
    within = list(open_store(url).children("").folders)
    if any(open_store(join(url, name)).children("").folders for name in within[:1]):
        more = " ..." if len(within) > layout.NAMED else ""
        return f": it is a folder of {', '.join(within[: layout.NAMED])}{more}; name a run in it"
    runs, name = split(url)
    names = list(open_store(runs).children("").folders) if is_url(runs) else []
    if not names:
        return "; the folder above it contains no runs"
    return f"{nearest(name, names)}; `mothtrap ls {runs}` lists the runs that exist"


def _known(folder: Path) -> Remote | None:
    """Return the recorded remote of a mirror's folder.

    None if the record is damaged, because it is then written again.
    """
    try:
        return read_remote(folder)
    except DamagedDataError:
        return None


def mirror_of(run: Path) -> Mirror | None:
    """Return the mirror that updates a run's folder; None for a run on this machine."""
    remote = read_remote(run)
    if remote is None or remote.role != "mirror":
        return None
    return Mirror(remote.url, run, whole=remote.whole)


def list_remote(runs_url: str) -> list[str]:
    """Return the URLs of the runs at a location, by name; an unlistable run counts as a run.

    Raises:
        StoreError: the store cannot be reached, or rejects the request.
    """
    url = runs_url.rstrip("/")
    store = open_store(url)
    first = str(layout.FIRST_ATTEMPT)

    def is_run(name: str) -> bool:
        try:
            objects = store.children(f"{name}/{first}").objects
        except OddKeyError:  # the damage is reported when the run is opened
            return True
        return any(info.key == f"{name}/{first}/run.json" for info in objects)

    names = store.children("").folders
    with ThreadPoolExecutor(fetching.AT_ONCE) as pool:
        found = zip(names, pool.map(is_run, names), strict=True)
        return [join(url, name) for name, is_one in found if is_one]
