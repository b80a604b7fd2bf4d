"""Keep the user's files unchanged while a script is checked.

Files that the script writes go to a scratch folder, under their own path; a file that was written
there is also read from there. Any other change to a file outside of the folder is rejected, and so
are connections to other machines. It imports the standard library only, since every Python process
of a checked script imports it first.
"""

from __future__ import annotations

import builtins
import functools
import io
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FREE = ("/dev/", "/proc/")
_LOCAL = ("127.", "::1", "localhost", "0.0.0.0")
_CHANGES: dict[str, tuple[int, ...]] = {
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "shutil.rmtree": (0,),
}
"""Audit events of file changes, and the arguments that are changed paths."""


class ProtectedFiles:
    """Redirects writes to a scratch folder.

    Args:
        scratch: the folder.
        free: folders that may be written to.
        network: whether connections to other machines are allowed.
    """

    def __init__(self, scratch: str, free: tuple[str, ...], *, network: bool) -> None:
        self._scratch = os.path.realpath(scratch)
        folders = (self._scratch, *map(os.path.realpath, free))
        self._free = tuple(folder.rstrip(os.sep) + os.sep for folder in folders) + _FREE
        self._network = network
        self._asking = threading.local()

    def place(self, path: Any) -> str | None:
        """Return where a path is redirected; None if it may be written to."""
        if isinstance(path, int) or path is None:
            return None
        self._asking.on = True
        try:
            whole = os.path.realpath(os.fsdecode(path))
        finally:
            self._asking.on = False
        if whole.startswith(self._free) or whole + os.sep in self._free:
            return None
        return os.path.join(self._scratch, "files", whole.lstrip(os.sep))

    def for_writing(self, path: Any, *, keeps: bool) -> Any:
        """Return the path in the scratch folder that replaces a path.

        Args:
            path: path used by the script.
            keeps: the content of the file is read or kept, so it is copied first.
        """
        there = self.place(path)
        if there is None:
            return path
        os.makedirs(os.path.dirname(there), exist_ok=True)
        if keeps and not os.path.lexists(there) and os.path.isfile(path):
            shutil.copyfile(path, there)
        return there

    def for_reading(self, path: Any) -> Any:
        """Return the path from which to read, which may be that of a copy."""
        if isinstance(path, int):
            return path
        there = self.place(path)
        return there if there is not None and os.path.exists(there) else path

    def redirected(self, path: Any, mode: str) -> Any:
        """Return the path to open instead of a path."""
        if any(letter in mode for letter in "wxa+"):
            return self.for_writing(path, keeps="w" not in mode and "x" not in mode)
        return self.for_reading(path)

    def install(self) -> None:
        """Wrap the functions that open and change files, until the process ends."""
        self._replace_open()
        self._replace_os()
        connect = sqlite3.connect

        @functools.wraps(connect)
        def connected(database: Any, *args: Any, **kwargs: Any) -> Any:
            named = isinstance(database, str) and database.startswith((":memory:", "file:"))
            there = database if named else self.for_writing(database, keeps=True)
            return connect(there, *args, **kwargs)

        sqlite3.connect = connected
        sys.addaudithook(self._audit)

    def _replace_open(self) -> None:
        opened = io.open

        @functools.wraps(opened)
        def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            return opened(self.redirected(file, mode), mode, *args, **kwargs)

        builtins.open = io.open = open_
        os_open = os.open

        @functools.wraps(os_open)
        def open_descriptor(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if kwargs.get("dir_fd") is None:
                writes = bool(flags & _WRITING)
                keeps = not (flags & os.O_TRUNC and flags & os.O_CREAT)
                path = self.for_writing(path, keeps=keeps) if writes else self.for_reading(path)
            return os_open(path, flags, *args, **kwargs)

        os.open = open_descriptor

    def _replace_os(self) -> None:
        """Redirect path changes, and queries about written files, to the scratch folder."""
        for name in ("mkdir", "truncate", "chmod"):
            setattr(os, name, self._led(getattr(os, name), 1, keeps=name != "mkdir"))
        for owner, name in ((os, "remove"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree")):
            setattr(owner, name, self._removed(getattr(owner, name)))
        for name in ("rename", "replace", "link", "symlink"):
            setattr(os, name, self._led(getattr(os, name), 2, keeps=True))
        for name in ("stat", "lstat", "scandir", "listdir"):
            setattr(os, name, self._read(getattr(os, name)))
        for name in ("exists", "isfile", "isdir", "getsize", "getmtime"):
            setattr(os.path, name, self._read(getattr(os.path, name)))

    def _led(self, original: Callable[..., Any], paths: int, *, keeps: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def act(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None or len(args) < paths:
                return original(*args, **kwargs)
            led = [self.for_writing(path, keeps=keeps) for path in args[:paths]]
            return original(*led, *args[paths:], **kwargs)

        return act

    def _removed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Remove files written to the scratch folder; keep the user's own files."""

        @functools.wraps(original)
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None:
                return original(path, *args, **kwargs)
            there = self.for_reading(path)
            if there is path and self.place(path) is not None and os.path.lexists(path):
                return None
            return original(there, *args, **kwargs)

        return remove

    def _read(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def ask(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None or getattr(self._asking, "on", False):
                return original(path, *args, **kwargs)
            return original(self.for_reading(path), *args, **kwargs)

        return ask

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Reject writes that were not redirected to the scratch folder."""
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & _WRITING:
                self._refuse(path, "written")
        elif event in _CHANGES:
            for place in _CHANGES[event]:
                self._refuse(_in_folder(args[place], event, args), "changed")
        elif event == "socket.connect" and not self._network:
            address = args[1]
            if isinstance(address, tuple) and not str(address[0]).startswith(_LOCAL):
                raise PermissionError(
                    f"`mothtrap check` blocked a connection to {address[0]}; allow connections "
                    "with --network"
                )

    def _refuse(self, path: Any, what: str) -> None:
        if self.place(path) is not None:
            raise PermissionError(
                f"`mothtrap check` changes no files outside its scratch folder; {path!r} was "
                f"about to be {what}"
            )


def _in_folder(path: Any, event: str, args: tuple[Any, ...]) -> Any:
    """Return the path that an event names, also if it is relative to an open folder."""
    if event in ("os.remove", "os.rmdir") and isinstance(args[1], int) and args[1] >= 0:
        return os.path.join(os.readlink(f"/proc/self/fd/{args[1]}"), os.fsdecode(path))
    return path


_installed: list[ProtectedFiles] = []


def protect(plan: str) -> None:
    """Protect the user's files in this process.

    Args:
        plan: path of the plan (`core.check_plan.CheckPlan`).
    """
    orders = json.loads(Path(plan).read_bytes())
    scratch = orders["scratch"]
    own = os.path.join(scratch, "temporary")
    os.makedirs(own, exist_ok=True)
    sys.dont_write_bytecode = True
    tempfile.tempdir = os.environ["TMPDIR"] = own
    files = ProtectedFiles(scratch, tuple(orders["kept"]), network=orders["network"])
    _installed.append(files)
    files.install()


def protected() -> ProtectedFiles | None:
    """Return the protection of this process, for libraries that open files themselves."""
    return _installed[0] if _installed else None
