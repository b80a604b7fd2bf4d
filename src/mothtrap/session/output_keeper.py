"""Store the end of a job's output in its run if the output goes to files.

A script writes to the same files as without mothtrap; they are read as they grow. The output to a
terminal or pipe can only be read by intercepting it, but a job must outlive its launcher.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mothtrap.store.output_log import FILE_BYTES, OutputLog

POLL_S = 1.0
"""Interval between two reads; chosen by hand: the page shows a line soon enough."""
STREAMS = (1, 2)
READ_BYTES = 1 << 20


class OutputKeeper:
    """Copies standard output and error from now on, if they are files.

    After an error here, the job continues, and only the output so far is kept.

    Args:
        attempt: folder of the attempt.
    """

    def __init__(self, attempt: Path) -> None:
        self._log = OutputLog(attempt)
        self._files = [_Growing(file) for file in _opened_files()]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="mothtrap-output", daemon=True)

    def __enter__(self) -> OutputKeeper:
        if self._files:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Copy the remaining output and stop."""
        self._over.set()
        if self._files:
            self._thread.join()
        for file in self._files:
            os.close(file.descriptor)

    def _keep(self) -> None:
        with suppress(OSError):
            while not self._over.wait(POLL_S):
                self._copy()
            self._copy()

    def _copy(self) -> None:
        for file in self._files:
            self._log.skip(file.skip_to(FILE_BYTES))
            for data in file.read():
                self._log.append(data)


class _Growing:
    """A growing file, read from its end at the time of creation."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._offset = os.fstat(descriptor).st_size

    def skip_to(self, last_bytes: int) -> int:
        """Continue at the last bytes of new output; return the number of skipped bytes."""
        size = os.fstat(self.descriptor).st_size
        if size < self._offset:  # the file was truncated
            self._offset = 0
        skipped = max(0, size - self._offset - last_bytes)
        self._offset += skipped
        return skipped

    def read(self) -> Iterator[bytes]:
        """Yield the new output."""
        while data := os.pread(self.descriptor, READ_BYTES, self._offset):
            self._offset += len(data)
            yield data


def _opened_files() -> Iterator[int]:
    """Open the files behind the streams for reading, each once."""
    seen = set()
    for stream in STREAMS:
        with suppress(OSError):
            status = os.fstat(stream)
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                yield os.open(f"/dev/fd/{stream}", os.O_RDONLY | os.O_CLOEXEC)
