"""The runs of a location; unchanged runs are read from the user's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from mothtrap.store import layout
from mothtrap.store.objects import is_url
from mothtrap.store.run_fingerprint import fingerprint
from mothtrap.web.row_cache import Kept, ListedRun, RowCache


def listed_runs(where: str) -> list[ListedRun]:
    """Return the runs of a location, latest start last.

    For a cached run, only the times of its files are checked. Any other run is read, and cached if
    its row can no longer change.

    Args:
        where: a folder, or the URL of an object store.

    Raises:
        StoreError: the object store cannot be reached, or refuses.
    """
    place = where if is_url(where) else str(Path(where).absolute())
    cache = RowCache(place)
    kept = cache.read()
    found, new = [], []
    for path in _candidates(where):
        look, known = fingerprint(path), kept.pop(path.name, None)
        if known is not None and look.digest and known.signature == look.digest:
            listed = known.listed
        elif layout.attempts(path):
            from mothtrap.web.row_reading import read_listed  # imports every rule: about 0.4 s

            listed = read_listed(path.name, path, layout.started(path)[0], look)
            if listed.final:
                new.append(Kept(look.digest, listed))
        else:
            continue
        if listed.run:  # the cache may have been written from another working folder
            listed = replace(listed, run={**listed.run, "path": str(path)})
        found.append(listed)
    cache.write(new, gone=kept)
    return sorted(found, key=lambda listed: (listed.row.started_s, listed.row.name))


def _candidates(where: str) -> Iterator[Path]:
    """Yield the folders that may be runs; of runs elsewhere, their mirrors."""
    if is_url(where):
        from mothtrap.store import find_runs

        yield from find_runs.list_runs(where)
        return
    yield from layout.folders(Path(where))
