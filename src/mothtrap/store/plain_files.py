"""Open the files of a run: plain files only, without blocking, and in bounded memory.

A run may come from elsewhere. Opening a FIFO would block, and reading a device would never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a symbolic link"),
)


def open_plain(path: Path, flags: int = 0, *, follow: bool = True) -> int:
    """Open a plain file for reading; return its descriptor.

    Args:
        path: path of the file.
        flags: further flags of `os.open`.
        follow: whether `path` may be a symbolic link to a plain file.

    Raises:
        OSError: the file cannot be opened, or is a folder, FIFO, socket, or device.
    """
    _refuse_special(path, os.stat(path, follow_symlinks=follow))  # opening can act on a device
    file = os.open(path, _FLAGS | flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    try:
        _refuse_special(path, os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def read_plain(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """Return the content of a plain file.

    Args:
        path: path of the file.
        most_bytes: maximum size of the file.
        follow: as for `open_plain`.

    Raises:
        OSError: as for `open_plain`, or the file is longer than `most_bytes`.
    """
    with open(open_plain(path, follow=follow), "rb") as file:
        data = file.read(min(most_bytes, os.fstat(file.fileno()).st_size) + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", str(path))
    return data


def link_out_of(folder: Path) -> str:
    """Return a symbolic link that leads out of a folder, as a relative path; "" without one.

    Raises:
        OSError: a folder cannot be listed.
    """
    top = os.path.realpath(folder)
    waiting = [top]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if os.path.commonpath([top, target]) != top:
                        return os.path.relpath(entry.path, top)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return ""


def _refuse_special(path: Path, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, "it is a folder, not a file", str(path))
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "something else")
    raise OSError(errno.EINVAL, f"it is {kind}, not a plain file", str(path))
