"""Source lines of the places that findings point to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mothtrap.core.ledger import Ledger
from mothtrap.core.runs import RunInfo
from mothtrap.store.plain_files import read_plain
from mothtrap.store.source_digests import digests_of

MAX_BYTES = 4 << 20
"""Size of a source file that is read at most; chosen by hand."""


def lines_at(
    info: RunInfo | None, locations: Iterable[str], kept: Mapping[str, str]
) -> dict[str, str]:
    """Return the source line of each location.

    A file that the run did not store, and that has changed since the job began or cannot be read,
    is omitted.

    Args:
        info: start of the run; None omits everything.
        locations: `file:line`, the file relative to the folder in which the job began.
        kept: texts of files that the run has stored.
    """
    if info is None:
        return {}
    files: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for location in dict.fromkeys(locations):
        name, _, number = location.rpartition(":")
        if not name or not number.isdigit():
            continue
        if name not in files:
            text = kept.get(name)
            path = os.path.join(info.cwd, name)
            files[name] = _lines(path, info.created_s) if text is None else text.splitlines()
        if 0 < int(number) <= len(files[name]):
            text = files[name][int(number) - 1].strip()
            found |= {location: text} if text else {}
    return found


def noted_only(
    lines: Mapping[str, str], ledger: Ledger | None, kept: Mapping[str, str]
) -> dict[str, str]:
    """Return the lines of files that the run has stored or whose digest matches the run's record.

    Reports may be shared, so a run must not make a report quote a file whose contents the run's
    creator did not know.
    """
    then = ledger.facts.get("sources", {}) if ledger is not None else {}
    files = {location.rpartition(":")[0] for location in lines}
    now = digests_of(files & then.keys(), Path(ledger.cwd)) if ledger is not None else {}
    unchanged = {name for name, digest in now.items() if digest == then[name]} | kept.keys()
    return {where: line for where, line in lines.items() if where.rpartition(":")[0] in unchanged}


def _lines(path: str, before_s: float) -> list[str]:
    """Lines of a Python file; a hostile run may name any file."""
    try:
        if not os.path.realpath(path).endswith(".py"):
            return []
        if os.stat(path).st_mtime > before_s:
            return []
        return read_plain(Path(path), MAX_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return []
