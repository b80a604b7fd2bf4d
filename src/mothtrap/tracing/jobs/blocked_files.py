"""Files that threads of this process wait for, as Linux reports them."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_OPENING: Final = {"x86_64": {2: 0, 257: 1, 437: 1}, "aarch64": {56: 1, 437: 1}}
"""System calls that open a file, and the position of the path among their arguments."""
_READING: Final = {"x86_64": {0: None, 17: 3, 19: None}, "aarch64": {63: None, 65: None, 67: 3}}
"""System calls that read a file, and the position of the offset; None = no offset is given."""
_MAX_PATH: Final = 4096


class BlockedFile(NamedTuple):
    """A file for which a thread is blocked in a system call.

    Attributes:
        path: path of the file.
        offset: first byte that is read; None if the call does not specify it, or opens the file.
        opens: the thread waits for the file to open.
    """

    path: str
    offset: int | None
    opens: bool


def blocked_files() -> list[BlockedFile]:
    """Return the regular files and named pipes for which threads of this process wait.

    Returns:
        The distinct files; empty on systems that do not report the system calls of threads.
    """
    machine = platform.machine()
    found: dict[BlockedFile, None] = {}
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError, ValueError):
                number, *words = (thread / "syscall").read_text().split()
                if number.isdecimal():
                    arguments = [int(word, 16) for word in words]
                    found |= dict.fromkeys(_file(machine, int(number), arguments))
    return list(found)


def _file(machine: str, call: int, arguments: list[int]) -> Iterator[BlockedFile]:
    opening, reading = _OPENING.get(machine, {}), _READING.get(machine, {})
    if call in opening:
        path = _text_at(arguments[opening[call]])
        if _is_file(path):
            yield BlockedFile(path, None, opens=True)
    elif call in reading:
        link = f"/proc/self/fd/{arguments[0]}"
        path, at = os.readlink(link), reading[call]
        if _is_file(path):
            yield BlockedFile(path, arguments[at] if at is not None else None, opens=False)


def _text_at(address: int) -> str:
    """Return a text in the memory of this process, without the risk of a crash."""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        page = 4096 - address % 4096  # memory after the page may not exist
        text = os.pread(memory, page, address)
        if b"\0" not in text:
            text += os.pread(memory, _MAX_PATH - page, address + page)
    finally:
        os.close(memory)
    return os.fsdecode(text.partition(b"\0")[0])


def _is_file(path: str) -> bool:
    """Return whether a path is a regular file or a named pipe, and not a system file."""
    if not path.startswith(("/dev/", "/proc/", "/sys/", "pipe:", "socket:", "anon_inode:")):
        mode = os.stat(path).st_mode
        return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)
    return False
