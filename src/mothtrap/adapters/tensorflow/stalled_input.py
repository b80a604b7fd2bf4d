"""Find the file and record that a `tf.data` pipeline reads while no step is made.

A pipeline reads files in TensorFlow threads, which Python cannot observe. So the operating system
is queried for the files that these threads wait for. Python functions of a pipeline are visible,
and their argument is searched among the records of the files. Nothing is added to the pipeline.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from types import FrameType
from typing import Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow import internals
from mothtrap.adapters.tensorflow.probes.batches import opened_data
from mothtrap.core.facts.stalls import InputState
from mothtrap.core.working_folder import shown
from mothtrap.tracing.jobs.blocked_files import BlockedFile, blocked_files
from mothtrap.tracing.source import frames

MAX_NAMED: Final = 3
MAX_FILES: Final = 10_000
"""Maximum number of inspected files of pipelines; chosen by hand."""
SECONDS: Final = 10.0
"""Maximum time for searching files for a record, in seconds; chosen by hand."""
_WAIT_S: Final = 1.0
"""Maximum time to wait for a search, because the file that blocks the pipeline may also block the
search.
"""
_MAX_SEARCHES: Final = 64
"""Maximum number of stored search results; chosen by hand."""
_PY_FUNCTION: Final = os.path.join("tensorflow", "python", "ops", "script_ops.py")
_HEADER: Final = struct.Struct("<QI")
"""Size of the header of a TFRecord: its length, and a checksum of the length."""
_CHECKSUM: Final = 4
"""Size of the checksum after the data of a TFRecord."""
_MAX_PATH: Final = 4096
Files = tuple[str, ...]


class StalledInput:
    """Names the file and record on which this process's pipelines are working."""

    def __init__(self) -> None:
        self._found: dict[object, str] = {}
        self._files_of: tuple[list[int], Files] = [], ()

    def __call__(self) -> InputState:
        """Return the files and records that pipelines wait for."""
        files = self._files()
        blocked = [one for one in blocked_files() if os.path.realpath(one.path) in files]
        found = [self._waits(one) for one in blocked]
        found += [self._works(*each, files) for each in _running_functions()]
        is_blocked = bool(found)
        if not found:
            found = [f"{shown(path)} is open" for path in _open(files)]
        return InputState("; ".join(dict.fromkeys(found[:MAX_NAMED])), is_blocked)

    def _files(self) -> Files:
        """Return the files of the pipelines for which iterators were created recently."""
        opened = opened_data()
        known = [id(data) for data in opened]
        if known != self._files_of[0]:
            parts = [part for data in opened for part in internals.every_part(data)]
            given = (path for part in parts for path in internals.paths_given(part))
            paths = (os.path.realpath(os.fsdecode(path)) for path in islice(given, MAX_FILES))
            self._files_of = known, tuple(dict.fromkeys(paths))
        return self._files_of[1]

    def _waits(self, file: BlockedFile) -> str:
        if file.opens:
            return f"a thread waits for {shown(file.path)} to open, before its first record"
        if file.offset is None:
            return f"a thread waits for {shown(file.path)}"
        offset = file.offset
        record = self._searching(file, lambda: _record_at(file.path, offset))
        return f"a thread waits for byte {offset} of {shown(file.path)}{record}"

    def _works(self, called: FrameType, running: FrameType, files: Files) -> str:
        """Return the Python line that runs, and the record that was passed to its function."""
        given = frozenset(_texts(called))
        record = self._searching(given, lambda: _record_of(given, files)) if given else ""
        return f"`{called.f_code.co_name}` is running{record}, in line {frames.location(running)}"

    def _searching(self, key: object, search: Callable[[], str]) -> str:
        """Return the result of a search; '' while it runs.

        Each search runs once, in a thread.
        """
        if key not in self._found:
            if len(self._found) >= _MAX_SEARCHES:
                self._found.clear()
            self._found[key] = ""

            def searched() -> None:
                self._found[key] = search()

            thread = threading.Thread(target=searched, name="mothtrap records", daemon=True)
            thread.start()
            thread.join(_WAIT_S)
        return self._found[key]


def _open(files: Files) -> Iterator[str]:
    """Yield the files of pipelines that this process has open, on Linux."""
    folder = "/proc/self/fd"
    for number in os.listdir(folder) if os.path.isdir(folder) else ():
        with suppress(OSError):  # closed in the meantime
            path = os.readlink(os.path.join(folder, number))
            if path in files:
                yield path


def _running_functions() -> Iterator[tuple[FrameType, FrameType]]:
    """Yield the outermost and innermost frames of user functions that pipelines are running."""
    for top in sys._current_frames().values():
        users: list[FrameType] = []
        frame: FrameType | None = top
        while frame is not None:
            if users and frame.f_code.co_filename.endswith(_PY_FUNCTION):
                yield users[-1], users[0]
                break
            if frames.is_users(frame):
                users.append(frame)
            frame = frame.f_back


def _texts(frame: FrameType) -> Iterator[bytes]:
    """Yield the text arguments of a function, which may be records or paths."""
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount]:
        value = frame.f_locals.get(name)
        if isinstance(value, tf.Tensor) and value.dtype == tf.string:
            value = value.numpy()
        if isinstance(value, np.ndarray) and value.size:
            value = value.flat[0]
        if isinstance(value, str):
            value = os.fsencode(value)
        if isinstance(value, bytes) and value:
            yield bytes(value)


def _record_of(given: Iterable[bytes], files: Files) -> str:
    """Return the first record, line, or file that was passed to a function, in words."""
    until = time.monotonic() + SECONDS
    for text in given:
        if len(text) < _MAX_PATH and b"\0" not in text and os.path.isfile(text):
            return f" on {shown(os.fsdecode(text))}"
    for path in filter(os.path.isfile, files):
        for word, number, found in _elements(path):
            if found in given:
                return f" on {word} {number} of {shown(path)}"
            if time.monotonic() > until:
                return ""
    return ""


def _record_at(path: str, offset: int) -> str:
    """Return the record of a TFRecord file at a byte offset, in words."""
    end = number = 0
    for word, number, data in _elements(path):
        if word == "line":
            return ""
        end += _HEADER.size + len(data) + _CHECKSUM
        if end > offset:
            return f", in record {number}"
    return f", after record {number}" if end else ""


def _elements(path: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield the records of a TFRecord file, or the lines of a text: noun, number, and content."""
    number = 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length = _HEADER.unpack(header)[0]
            if file.tell() + length + _CHECKSUM > size:
                break
            yield "record", number, file.read(length)
            file.seek(_CHECKSUM, os.SEEK_CUR)
            number += 1
        if number == 0:
            file.seek(0)
            for number, line in enumerate(file, 1):
                yield "line", number, line.rstrip(b"\r\n")
