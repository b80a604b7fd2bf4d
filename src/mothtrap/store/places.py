"""Finds and lists runs, on a disk or in an object store, as users name them."""

from __future__ import annotations

from pathlib import Path

from mothtrap.core.errors import RunNotFoundError
from mothtrap.store import layout
from mothtrap.store.mirror import list_remote, open_mirror
from mothtrap.store.objects import is_url, join
from mothtrap.store.remote import place_of


def find_run(argument: str | Path | None, runs_dir: str | Path) -> Path:
    """Return the folder of the run that a user means; of a run elsewhere, that of its mirror.

    Args:
        argument: a path, a URL, a name under `runs_dir`, or None for the latest run.
        runs_dir: the folder or the URL of runs.

    Raises:
        RunNotFoundError: there is no such run; names the nearest.
        StoreError: the object store cannot be reached, or refuses.
    """
    if isinstance(argument, str) and is_url(argument):
        return open_mirror(argument).folder
    if not isinstance(runs_dir, str) or not is_url(runs_dir):
        return layout.find_run(argument, runs_dir)
    if argument is not None:
        path = Path(argument)
        here = layout.attempts(path)
        return path if here else open_mirror(join(runs_dir, str(argument))).folder
    known = list_runs(runs_dir)
    if not known:
        raise RunNotFoundError(
            f"no run found: {runs_dir} holds none; make one with "
            f"`mothtrap run --runs-dir {runs_dir} train.py`"
        )
    return open_mirror(place_of(known[0])).folder


def list_runs(runs_dir: str | Path) -> list[Path]:
    """Return the runs of a place, the latest start first; of runs elsewhere, their mirrors.

    A mirror that was made for the list lacks the statistics of tensors until the run is
    opened by its URL.

    Raises:
        StoreError: the object store cannot be reached, or refuses.
    """
    if not isinstance(runs_dir, str) or not is_url(runs_dir):
        return layout.list_runs(Path(runs_dir))
    mirrors = [open_mirror(url, whole=False).folder for url in list_remote(runs_dir)]
    return sorted(mirrors, key=layout.started, reverse=True)
