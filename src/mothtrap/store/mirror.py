"""Brings a run from an object store into a folder of the same layout, as it grows.

Segments of tensors stay where they are: `raw_reading` fetches the bytes of one tensor by
their range. Nothing is fetched twice, and keys that were seen are not listed again.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from mothtrap.core.errors import (
    ObjectNotFoundError,
    RunNotFoundError,
    StoreError,
    StoreRefusedError,
    nearest,
)
from mothtrap.store import layout
from mothtrap.store.layout import Kind
from mothtrap.store.objects import ObjectInfo, Store, join, open_store, split
from mothtrap.store.outbox import COMMITS, CONTENTS
from mothtrap.store.remote import Remote, mirror_folder, read_remote, write_remote

FETCHED: tuple[Kind, ...] = tuple(kind for kind in CONTENTS if kind != "raw")
FOR_A_LIST: tuple[Kind, ...] = ("scalars",)
"""What a line about a run is made from, beside events and findings."""
AT_ONCE = 8
"""Objects fetched at the same time; chosen by hand: each may be as large as a segment."""
FETCH_EVERY_S = 0.5
"""Pause between two looks into the store for somebody who follows; chosen by hand."""
_DESCRIPTION = f"{layout.FIRST_ATTEMPT}/run.json"
_RECORDER = re.compile(r"[wm](0|[1-9][0-9]{0,8})")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,8}")


class StaleRunWarning(UserWarning):
    """A run is shown as it was when its store could last be reached."""


class Mirror:
    """A run in an object store, and the folder that it is fetched to.

    Args:
        url: of the run.
        folder: exists, with a `remote.json`.
        whole: whether to fetch the statistics of tensors, too.

    Attributes:
        unheard_s: `time.monotonic()` of the last time when the store could not be reached.
    """

    def __init__(self, url: str, folder: Path, *, whole: bool = True) -> None:
        self.folder = folder
        self._url = url
        self._store: Store = open_store(url)
        self._kinds = FETCHED if whole else FOR_A_LIST
        self._complete: set[str] = set()
        self.unheard_s = self._tried_s = float("-inf")
        self._warned = False

    def refresh(self) -> None:
        """Fetch what is new, at most every `FETCH_EVERY_S`.

        While the store cannot be reached the mirror stays as it is, with a warning.

        Raises:
            StoreRefusedError: credentials, permissions or the bucket are wrong, or the run
                was removed and another has its name.
        """
        now_s = time.monotonic()
        if now_s - self._tried_s < FETCH_EVERY_S:
            return
        self._tried_s = now_s
        try:
            self.sync()
            self._warned = False
        except StoreRefusedError:
            raise
        except StoreError as err:
            self.unheard_s = time.monotonic()
            if not self._warned:
                self._warned = True
                warnings.warn(f"{err}; the run is shown as it was", StaleRunWarning, stacklevel=3)

    def sync(self) -> None:
        """Fetch what is new.

        Raises:
            StoreError: the store cannot be reached; what was fetched is whole.
        """
        for attempt in filter(_ATTEMPT.fullmatch, self._store.children("").folders):
            # The end first: what was written before it is then found below.
            here = self._store.children(attempt)
            self._refuse_another(here.objects)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(self._sync_folder, _recorders(attempt, here.folders)))
            for info in sorted(here.objects, key=lambda info: info.key.endswith("/end.json")):
                self._fetch_changed(info)

    def _refuse_another(self, found: Sequence[ObjectInfo]) -> None:
        """Fetch nothing of a run that was made under the name of this one later."""
        kept = self.folder / _DESCRIPTION
        for info in found:
            if info.key != _DESCRIPTION or self._is_current(info) or not kept.exists():
                continue
            if self._store.get(info.key) != kept.read_bytes():
                raise StoreRefusedError(
                    f"{self._url} is another run now; the one that was opened was removed; "
                    "open it again to read the new one"
                )

    def _is_current(self, info: ObjectInfo) -> bool:
        """Whether a file is the object as it is now."""
        try:
            status = (self.folder / info.key).stat()
        except FileNotFoundError:
            return False
        return (status.st_size, status.st_mtime) == (info.size, info.modified_s)

    def _sync_folder(self, folder: str) -> None:
        commits = [info for kind in COMMITS for info in self._unseen(folder, kind)]
        if commits or folder not in self._complete:
            for kind in self._kinds:
                self._fetch(self._unseen(folder, kind))
            self._fetch(commits)
            self._fetch_ledger(f"{folder}/{layout.LEDGER}")
            self._complete.add(folder)

    def _fetch_ledger(self, key: str) -> None:
        """Bring a file that is written once, and early, if at all."""
        path = self.folder / key
        if path.exists() or not path.parent.is_dir():
            return
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with suppress(ObjectNotFoundError):
            draft.write_bytes(self._store.get(key))
            os.replace(draft, path)

    def _unseen(self, folder: str, kind: Kind) -> Iterator[ObjectInfo]:
        prefix = f"{folder}/{kind}-"
        local = layout.segments(self.folder / folder, kind)
        last = layout.segment_path(Path(folder), kind, local[-1]) if local else None
        after = last.as_posix() if last is not None else prefix
        found = self._store.list(folder, after)
        return takewhile(lambda info: info.key.startswith(prefix), found)

    def _fetch(self, found: Iterable[ObjectInfo]) -> None:
        """Bring segments of one kind, so that they appear in their order."""
        infos = list(found)
        if len(infos) == 1:
            self._place(infos[0], self._download(infos[0]))
        elif infos:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for info, draft in zip(infos, pool.map(self._download, infos), strict=True):
                    self._place(info, draft)

    def _fetch_changed(self, info: ObjectInfo) -> None:
        if not self._is_current(info):
            with suppress(ObjectNotFoundError):  # it was replaced this moment: it comes again
                self._place(info, self._download(info))

    def _download(self, info: ObjectInfo) -> Path:
        path = self.folder / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        draft.write_bytes(self._store.get(info.key))
        os.utime(draft, (info.modified_s, info.modified_s))
        return draft

    def _place(self, info: ObjectInfo, draft: Path) -> None:
        """Show readers the whole file, as old as the object."""
        os.replace(draft, self.folder / info.key)


def _recorders(attempt: str, names: Sequence[str]) -> list[str]:
    return [f"{attempt}/{name}" for name in names if _RECORDER.fullmatch(name)]


def open_mirror(url: str, *, whole: bool = True) -> Mirror:
    """Fetch what there is of a run; its folder is then as good as one of this machine.

    Args:
        url: of the run.
        whole: whether to fetch the statistics of tensors, too; what is there already is
            kept up to date in any case.

    Raises:
        RunNotFoundError: there is no run at `url`; names the nearest.
        StoreError: the store cannot be reached, or refuses.
    """
    plain = url.rstrip("/")
    try:
        description = open_store(plain).get(_DESCRIPTION)
    except ObjectNotFoundError as err:
        runs, name = split(plain)
        names = list(open_store(runs).children("").folders) if "://" in runs else []
        raise RunNotFoundError(
            f"no run found at {plain}{nearest(name, names)}; {runs} holds {len(names)} folders; "
            f"`mothtrap ls {runs}` lists the runs"
        ) from err
    folder = mirror_folder(plain, description)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = read_remote(folder)
    whole = whole or (known is not None and known.whole)
    write_remote(folder, Remote(url=plain, role="mirror", whole=whole))
    mirror = Mirror(plain, folder, whole=whole)
    mirror.sync()
    return mirror


def mirror_of(run: Path) -> Mirror | None:
    """Return what keeps a run's folder up to date; None for a run of this machine."""
    remote = read_remote(run)
    if remote is None or remote.role != "mirror":
        return None
    return Mirror(remote.url, run, whole=remote.whole)


def list_remote(runs_url: str) -> list[str]:
    """Return the URLs of the runs at a place, by name.

    Raises:
        StoreError: the store cannot be reached, or refuses.
    """
    url = runs_url.rstrip("/")
    store = open_store(url)
    first = str(layout.FIRST_ATTEMPT)

    def is_run(name: str) -> bool:
        objects = store.children(f"{name}/{first}").objects
        return any(info.key == f"{name}/{first}/run.json" for info in objects)

    names = store.children("").folders
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = zip(names, pool.map(is_run, names), strict=True)
        return [join(url, name) for name, is_one in found if is_one]
