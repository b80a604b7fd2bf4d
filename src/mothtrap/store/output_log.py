"""The end of a job's output, stored in its run: `RUN/<attempt>/output-<offset>.log`.

Each file is named after the offset of its first byte in the whole output. When a file is full, the
next file begins, and all files except the latest two are removed.
"""

from __future__ import annotations

import re
from pathlib import Path

FILE_BYTES = 4 << 20
"""Size of a file at which the next file begins; chosen by hand: 10,000 lines of 400 characters."""
KEPT_FILES = 2
_NAME = re.compile(r"output-([0-9]{15})\.log")


class OutputLog:
    """Appends to the stored output of an attempt.

    Args:
        attempt: folder of the attempt.
    """

    def __init__(self, attempt: Path) -> None:
        self._attempt = attempt
        self._start = self._size = 0

    def append(self, data: bytes) -> None:
        """Append output of the job.

        Raises:
            OSError: the folder cannot be written.
        """
        if not data:
            return
        if self._size >= FILE_BYTES:
            self._start, self._size = self._start + self._size, 0
        with _path(self._attempt, self._start).open("ab") as file:
            file.write(data)
        begun, self._size = self._size == 0, self._size + len(data)
        if begun:
            for _, path in kept_output(self._attempt)[:-KEPT_FILES]:
                path.unlink(missing_ok=True)

    def skip(self, count: int) -> None:
        """Skip bytes of the output; the following output begins a new file."""
        if count:
            self._start, self._size = self._start + self._size + count, 0


def kept_output(attempt: Path) -> list[tuple[int, Path]]:
    """Return the stored output files, each with the offset of its first byte."""
    try:
        found = [(_NAME.fullmatch(path.name), path) for path in attempt.iterdir()]
    except OSError:
        return []
    return sorted((int(match.group(1)), path) for match, path in found if match)


def _path(attempt: Path, start: int) -> Path:
    return attempt / f"output-{start:015d}.log"
