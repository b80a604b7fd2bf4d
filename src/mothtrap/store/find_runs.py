"""Find and list runs that users name, on a disk or in an object store."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from mothtrap.core.errors import OddKeyError, RunNotFoundError
from mothtrap.store import layout
from mothtrap.store.mirror import LeftOutWarning, list_remote, open_mirror
from mothtrap.store.mirror_cache import configured_bytes, keep_within
from mothtrap.store.objects import is_url, join
from mothtrap.store.remote import place_of


def find_run(argument: str | Path | None, runs_dir: str | Path) -> Path:
    """Return the folder of the requested run; for a remote run, the folder of its mirror.

    Args:
        argument: a path, a URL, a name under `runs_dir`, or None for the latest run.
        runs_dir: the folder or the URL of runs.

    Raises:
        RunNotFoundError: there is no such run; the message suggests one.
        StoreError: the object store cannot be reached, or rejects the request.
    """
    if isinstance(argument, str) and is_url(argument):
        return _mirrors([argument])[0]
    if not isinstance(runs_dir, str) or not is_url(runs_dir):
        return layout.find_run(argument, runs_dir)
    if argument is not None:
        path = Path(argument)
        here = layout.attempts(path)
        return path if here else _mirrors([join(runs_dir, str(argument))])[0]
    known = list_runs(runs_dir)
    if not known:
        raise RunNotFoundError(
            f"no run found: {runs_dir} contains no runs; record one with "
            f"`mothtrap run --runs-dir {runs_dir} train.py`"
        )
    return _mirrors([place_of(known[0])])[0]


def list_runs(runs_dir: str | Path) -> list[Path]:
    """Return the runs at a location, latest start first; for remote runs, their mirrors.

    A run that cannot be listed is skipped, with a `LeftOutWarning`. A mirror that was made for the
    list lacks the statistics of tensors until the run is opened by its URL.

    Raises:
        StoreError: the object store cannot be reached, or rejects the request.
    """
    if not isinstance(runs_dir, str) or not is_url(runs_dir):
        return layout.list_runs(Path(runs_dir))
    mirrors = _mirrors(list_remote(runs_dir), whole=False, all_of=False)
    return sorted(mirrors, key=layout.started, reverse=True)


def _mirrors(urls: Sequence[str], *, whole: bool = True, all_of: bool = True) -> list[Path]:
    """Fetch runs; if anything was fetched, remove the least recently used mirrors to make room.

    Args:
        urls: urls of runs.
        whole: whether to fetch the statistics of tensors, too.
        all_of: whether a missing or unlistable run is an error; otherwise a missing run was removed
            in the meantime, and an unlistable run is skipped with a warning.
    """
    folders, grew = [], False
    for url in urls:
        try:
            mirror = open_mirror(url, whole=whole)
        except RunNotFoundError:
            if all_of:
                raise
            continue
        except OddKeyError as err:
            if all_of:
                raise
            warnings.warn(f"{url} is skipped: {err}", LeftOutWarning, stacklevel=3)
            continue
        folders.append(mirror.folder)
        grew = grew or mirror.grew
    if grew:
        keep_within(configured_bytes())
    return folders
