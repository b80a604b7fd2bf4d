"""Copy the output of a job to its destination, and store the end of it in the run.

Used by `mothtrap run --keep-output` for a terminal or a pipe. The script then writes to a
pseudo-terminal instead of a terminal, so that it behaves as before, and otherwise to a pipe. Output
that goes to a file is read from there (`output_keeper.py`).
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import stat
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mothtrap.core.masking import without_secrets
from mothtrap.store.output_log import OutputLog

STREAMS = (1, 2)
READ_BYTES = 1 << 16
POLL_S = 0.2
"""Interval between checks of the window size, and for the end of the job; chosen by hand."""
LAST_S = 2.0
"""Maximum time for copying remaining output; chosen by hand: a process may outlive the job."""
MOST_HELD_BYTES = 1 << 16
"""Maximum length of a line that is masked as a whole; chosen by hand. Longer lines are split."""


class OutputTee:
    """Passes the output of a job to the terminal or pipes while copying it.

    If the run cannot be written, the output is still passed on.

    Args:
        attempt: folder of the attempt.
        is_wanted: False passes nothing through: the job writes directly to this process's output.

    Attributes:
        streams: descriptor for each of `STREAMS` that the job uses.
    """

    def __init__(self, attempt: Path, is_wanted: bool) -> None:
        self._log = _MaskedLog(OutputLog(attempt))
        self._over = threading.Event()
        self.streams: dict[int, int] = {}
        self._channels: list[_Channel] = []
        known: dict[tuple[int, int], _Channel] = {}
        for stream in STREAMS if is_wanted else ():
            with suppress(OSError):
                status = os.fstat(stream)
                if stat.S_ISREG(status.st_mode):
                    continue
                place = (status.st_dev, status.st_ino)
                if place not in known:
                    known[place] = _Channel(stream)
                    self._channels.append(known[place])
                self.streams[stream] = known[place].inner
        self._threads = [
            threading.Thread(target=self._copy, args=(channel,), daemon=True)
            for channel in self._channels
        ]

    def started(self) -> None:
        """Close the job's ends of the pipes once the job has them, and start copying."""
        for channel in self._channels:
            os.close(channel.inner)
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> OutputTee:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Copy the remaining output, without waiting for processes that outlive the job."""
        self._over.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._log.close()
        for channel in self._channels:
            channel.close()

    def _copy(self, channel: _Channel) -> None:
        end_s = float("inf")
        while time.monotonic() < end_s:
            is_last = self._over.is_set()
            if is_last:
                end_s = min(end_s, time.monotonic() + LAST_S)
            channel.follow_window()
            ready, _, _ = select.select([channel.outer], [], [], 0 if is_last else POLL_S)
            if not ready:
                if is_last:
                    return
                continue
            try:
                data = os.read(channel.outer, READ_BYTES)
            except OSError:  # a pseudo-terminal whose other end is closed
                return
            if not data:
                return
            is_read = channel.pass_on(data)
            self._log.append(data)
            if not is_read:
                channel.close()
                return


class _Channel:
    """A stream of this process, and the pseudo-terminal or pipe in front of it."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._is_terminal = os.isatty(stream)
        self._window = b""
        if not self._is_terminal:
            self.outer, self.inner = os.pipe()
            return
        self.outer, self.inner = pty.openpty()
        settings = termios.tcgetattr(self.inner)
        settings[1] &= ~termios.OPOST  # the real terminal turns \n into \r\n
        termios.tcsetattr(self.inner, termios.TCSANOW, settings)
        self.follow_window()

    def follow_window(self) -> None:
        """Give the pseudo-terminal the size of the real terminal."""
        if not self._is_terminal:
            return
        with suppress(OSError):
            window = fcntl.ioctl(self._stream, termios.TIOCGWINSZ, bytes(8))
            if window != self._window:
                fcntl.ioctl(self.outer, termios.TIOCSWINSZ, window)
                self._window = window

    def pass_on(self, data: bytes) -> bool:
        """Write all bytes to the stream; return False if its reader has closed it."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._stream, view) :]
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the outer end, so that the job's next write fails."""
        if self.outer >= 0:
            os.close(self.outer)
            self.outer = -1


class _MaskedLog:
    """Keeps whole lines, with secrets masked; both streams write to it."""

    def __init__(self, log: OutputLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._held = b""

    def append(self, data: bytes) -> None:
        with self._lock:
            self._held += data
            end = self._held.rfind(b"\n") + 1
            if not end and len(self._held) > MOST_HELD_BYTES:
                end = len(self._held)
            whole, self._held = self._held[:end], self._held[end:]
            self._write(whole)

    def close(self) -> None:
        with self._lock:
            self._write(self._held)
            self._held = b""

    def _write(self, data: bytes) -> None:
        text = without_secrets(data.decode("utf-8", "surrogateescape"))
        with suppress(OSError):
            self._log.append(text.encode("utf-8", "surrogateescape"))
