"""Current locations of a recorded step in a script that was changed since the run.

A location is `file:line`. A snapshot contains no source, only a digest of each line of the files
with its locations. Comparing them with the digests of the current files shows where each line has
moved.
"""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from mothtrap.core.snapshots import LineDigests, Snapshot

MAX_LINES = 20_000
"""Maximum number of lines of an inspected file. Chosen by hand: longer files are generated."""
ANYWHERE = (1, 1 << 31)
"""Range of all lines, for a location that cannot be found."""

Moved = dict[str, tuple[int, int]]
"""First and last possible line of a recorded location, by location. Locations that have not moved
are left out.
"""


def line_digests(path: Path) -> LineDigests:
    """Return digests of the lines of a file, ignoring indentation.

    Returns:
        CRC-32 of each line; empty if the file cannot be read or is too long.
    """
    try:
        lines = path.read_bytes().splitlines()
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return ()
    return tuple(zlib.crc32(line.strip()) for line in lines) if len(lines) <= MAX_LINES else ()


def files_of(sites: Iterable[str]) -> dict[str, None]:
    """Return the distinct files of some locations."""
    return dict.fromkeys(site.rpartition(":")[0] for site in sites if ":" in site)


def sites_of(snapshot: Snapshot) -> dict[str, None]:
    """Return the distinct locations that a snapshot names."""
    sites = dict.fromkeys(event.site for step in snapshot.steps for event in step.events)
    losses = snapshot.truth.losses if snapshot.truth is not None else {}
    return sites | dict.fromkeys(name.partition("#")[0] for name in losses)


def moved_since(snapshot: Snapshot, folder: Path, changed: Iterable[str]) -> Moved:
    """Find the locations of a snapshot in the current files.

    Args:
        snapshot: contains the locations, and possibly digests of lines.
        folder: folder in which the script is started.
        changed: files known to be different; their locations are searched in the whole file if the
            snapshot has no digests of their lines.
    """
    changed, found = set(changed), Moved()
    every = sites_of(snapshot)
    for file in files_of(every):
        then, now = snapshot.lines.get(file, ()), line_digests(folder / file)
        sites = [site for site in every if site.rpartition(":")[0] == file]
        if then and now and then != now:
            found |= _followed(sites, then, now)
        elif not then and file in changed:
            found |= dict.fromkeys(sites, ANYWHERE)
    return found


def _followed(sites: Iterable[str], then: LineDigests, now: LineDigests) -> Moved:
    blocks = difflib.SequenceMatcher(None, then, now).get_opcodes()
    found = Moved()
    for site in sites:
        number = site.rpartition(":")[2]
        line = int(number) - 1 if number.isdigit() else -1
        for kind, first, end, now_first, now_end in blocks:
            if not first <= line < end:
                continue
            if kind == "equal":
                place = line - first + now_first + 1
                if place != line + 1:
                    found[site] = place, place
            else:  # rewritten; removed lines may be elsewhere
                found[site] = (now_first + 1, now_end) if kind == "replace" else ANYWHERE
    return found


class CodeLocations:
    """Maps locations in the current script to locations in the run.

    Args:
        moved: locations that have moved; empty if all are unchanged.
    """

    def __init__(self, moved: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._moved = dict(moved or {})

    def fits(self, recorded: str, found: str) -> bool:
        """Return whether a location may be the recorded location."""
        if recorded not in self._moved:
            return recorded == found
        first, last = self._moved[recorded]
        file, _, line = found.rpartition(":")
        if file != recorded.rpartition(":")[0] or not line.isdigit():
            return False
        return first <= int(line) <= last

    def now(self, recorded: str) -> str | None:
        """Return the current line of a recorded location; None if several lines are possible."""
        if recorded not in self._moved:
            return recorded
        first, last = self._moved[recorded]
        return f"{recorded.rpartition(':')[0]}:{first}" if first == last else None

    def renamed(self, expected: Mapping[str, str], found: Iterable[str]) -> dict[str, str]:
        """Return `expected` with the locations at which its values were found.

        Args:
            expected: values by `file:line`, or `file:line#n` for the n-th at one location.
            found: corresponding names in the current script, in order.
        """
        free, renamed = list(found), dict[str, str]()
        for name, value in expected.items():
            site, _, count = name.partition("#")
            fitting = (
                one
                for one in free
                if one.partition("#")[2] == count and self.fits(site, one.partition("#")[0])
            )
            place = next(fitting, None)
            if place is not None:
                free.remove(place)
            renamed[place or name] = value
        return renamed
