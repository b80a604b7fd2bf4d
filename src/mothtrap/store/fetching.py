"""Fetch objects into a folder: a few at a time, each completely, and each list in order."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from mothtrap.core.errors import StoreError
from mothtrap.store.objects import ObjectInfo, Store
from mothtrap.store.progress import progress

AT_ONCE = 8
"""Number of concurrent requests; chosen by hand: more are not faster if a request takes long."""
_DRAFTS = ".fetch-"


def bring(store: Store, lists: Sequence[Sequence[ObjectInfo]], folder: Path) -> None:
    """Fetch objects into files with the same names and modification times.

    The files of a list appear in order. If an object is not available, the objects after it in its
    list are skipped; the other lists continue.

    Args:
        store: store that contains the objects.
        lists: lists of objects.
        folder: existing folder, below which the files are written.

    Raises:
        StoreError: an object could not be fetched; the first error if there are several.
        OSError: the disk rejected the write.
    """
    size = sum(info.size for infos in lists for info in infos)
    if not any(lists):
        return
    errors: list[StoreError] = []
    done = 0
    pool = ThreadPoolExecutor(AT_ONCE)
    with (
        TemporaryDirectory(prefix=_DRAFTS, dir=folder) as drafts,
        progress("fetching the run", lambda: size) as told,
    ):
        try:
            coming = [
                [pool.submit(_fetch, store, info, Path(drafts)) for info in infos]
                for infos in lists
            ]
            for infos, futures in zip(lists, coming, strict=True):
                try:
                    for info, future in zip(infos, futures, strict=True):
                        _place(future.result(), folder / info.key)
                        done += info.size
                        told(done)
                except StoreError as err:
                    errors.append(err)
                    _cancel(futures)
        finally:
            pool.shutdown(cancel_futures=True)
    if errors:
        raise errors[0]


def _fetch(store: Store, info: ObjectInfo, drafts: Path) -> Path:
    draft = drafts / secrets.token_hex(8)
    store.fetch(info.key, draft)
    os.utime(draft, (info.modified_s, info.modified_s))
    return draft


def _place(draft: Path, path: Path) -> None:
    """Move a complete file to its final name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(draft, path)


def _cancel(futures: Sequence[Future[Path]]) -> None:
    for future in futures:
        future.cancel()
