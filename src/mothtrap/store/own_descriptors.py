"""Descriptors of files that are kept open while a script runs in the same process."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


class OwnDescriptor:
    """File descriptor that stays valid even if the script closes it.

    A script may close all descriptors (`os.closerange(3, 256)`, as daemons do), and then open a
    file that gets the same number. mothtrap never writes to that file, and never closes it.

    Args:
        path: path of the file.
        flags: flags of `os.open`.
        mode: permissions of a new file.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, flags: int, mode: int = 0o666) -> None:
        self._path, self._flags = path, flags & ~(os.O_CREAT | os.O_EXCL)
        self._number = os.open(path, flags, mode)
        self._file, self._link = _file_of(self._number), path_of(self._number)
        self._changes = False
        self.closed = False

    def number(self) -> int:
        """Return the descriptor's number, reopening the file if it was closed.

        Raises:
            OSError: it was closed, and the file no longer exists.
        """
        if not self._is_ours():
            number = os.open(self._path, self._flags)
            if not self._is_same(number, has_moved=self._changes):
                os.close(number)
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))
            self._number = number
        return self._number

    def close(self) -> None:
        """Close the file, if it is still open; a second call does nothing."""
        if not self.closed and self._is_ours():
            os.close(self._number)
        self.closed = True

    def _is_ours(self) -> bool:
        with suppress(OSError):
            return self._is_same(self._number, has_moved=path_of(self._number) == self._link != "")
        return False

    def _is_same(self, number: int, *, has_moved: bool) -> bool:
        """Return whether a descriptor refers to the file.

        Some network or user-space file systems change the inode number of an open file. Then the
        device and the path are compared.

        Args:
            number: number of the descriptor.
            has_moved: the number of the inode may differ.
        """
        device, inode = _file_of(number)
        if device != self._file[0] or not (inode == self._file[1] or has_moved):
            return False
        self._changes = self._changes or inode != self._file[1]
        self._file = device, inode
        return True


def _file_of(number: int) -> tuple[int, int]:
    status = os.fstat(number)
    return status.st_dev, status.st_ino


def path_of(number: int) -> str:
    """Return the path of an open file; empty if the system does not provide it."""
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{number}")
    return ""
