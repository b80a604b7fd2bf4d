"""Differences between a run and this environment that may make a replay differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.ledger import Ledger
from mothtrap.core.snapshots import Snapshot
from mothtrap.session.record.packages import container_image, lock_lines
from mothtrap.session.surroundings import installed_versions
from mothtrap.store import layout
from mothtrap.store.source_digests import digests_of

SHOWN = 3
"""Maximum number of named files."""


def differences_here(run: Path, snapshot: Snapshot, folder: str | None = None) -> Iterator[str]:
    """Yield, as text, what has changed since the run: sources and versions.

    Args:
        run: folder of the run.
        snapshot: snapshot of the run.
        folder: folder in which the script is started; None = the folder of the run.
    """
    changed = changed_sources(run, snapshot, folder)
    if changed:
        more = f" and {len(changed) - SHOWN} more files" if len(changed) > SHOWN else ""
        were = "was" if len(changed) == 1 else "were"
        yield f"{', '.join(changed[:SHOWN])}{more} {were} changed after the run began"
    if snapshot.python.split(".")[:2] != [str(part) for part in sys.version_info[:2]]:
        yield f"the run used Python {snapshot.python}"
    here = installed_versions(snapshot.versions)
    for name, version in snapshot.versions.items():
        if here.get(name, version) != version:
            yield f"the run used {name} {version}, but here it is {here[name] or 'not installed'}"
    attempt = layout.attempt_folder(run, snapshot.attempt)
    yield from _packages(layout.read_packages(layout.worker_folder(attempt, 0)), snapshot.versions)
    yield from _image(_ledger(layout.worker_folder(attempt, snapshot.worker)))


def _packages(then: Mapping[str, str], known: Iterable[str]) -> Iterator[str]:
    """Yield one line about installed packages that differ, except those already reported."""
    if not then:
        return
    now = layout.packages_in(lock_lines())
    names = sorted({*then, *now} - {name.replace("_", "-").lower() for name in known})
    other = [name for name in names if then.get(name) != now.get(name)]
    if other:
        told = [f"{one} {then.get(one, 'none')} (here {now.get(one, 'none')})" for one in other]
        more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
        yield f"installed packages differ: {', '.join(told[:SHOWN])}{more}"


def _image(ledger: Ledger | None) -> Iterator[str]:
    then = ledger.facts.get("environment", {}).get("container.image") if ledger else None
    now = container_image(os.environ)
    if (then or now) and ledger is not None and then != now:
        yield f"the run used the container image {then or 'none'}, but here it is {now or 'none'}"


def changed_sources(run: Path, snapshot: Snapshot, folder: str | None = None) -> list[str]:
    """Return the files of the script that have changed, by the ledger or else by modification time.

    Args:
        run: folder of the run.
        snapshot: snapshot of the run.
        folder: folder in which to search for the files; None = the folder of the run.
    """
    attempt = layout.attempt_folder(run, snapshot.attempt)
    ledger = _ledger(layout.worker_folder(attempt, snapshot.worker))
    if ledger is not None and "sources" in ledger.facts:
        then = ledger.facts["sources"]
        now = digests_of(then, Path(folder or ledger.cwd))
        return [name for name, digest in then.items() if now.get(name, digest) != digest]
    info = layout.read_info(attempt)
    began_s = info.created_s if info is not None else snapshot.created_s
    scripts = [word for word in snapshot.command if word.endswith(".py")]
    here = Path(folder or snapshot.cwd)
    there = [word for word in scripts if (here / word).is_file()]
    return [word for word in there if (here / word).stat().st_mtime > began_s]


def _ledger(worker: Path) -> Ledger | None:
    try:
        return layout.read_ledger(worker)
    except (OSError, DamagedDataError):
        return None
