"""Files and facts of items that a script logs, other than numbers and tensors."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mothtrap.core.error_texts import in_one_line
from mothtrap.core.fact import Fact
from mothtrap.core.facts.record import ItemLogged, ParametersLogged
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.masking import without_secrets
from mothtrap.core.parameters import flat
from mothtrap.core.predictions import predictions
from mothtrap.core.record_items import FOLDER, MAX_BYTES, MAX_ITEMS, MAX_NAME, MAX_TOTAL_BYTES
from mothtrap.core.texts import storable
from mothtrap.session.record import conversion, figures
from mothtrap.store.replacing import replace
from mothtrap.tracing.jobs.notebooks import cells_run

CELLS = "notebook cells"
"""Name of the text with the executed cells of a notebook."""
PENDING_BYTES = 256 << 20
"""Maximum size of files that wait for the first step; chosen by hand."""
CHUNK = 4 << 20


class Sink(Protocol):
    """The part of a step's notes that is used here."""

    def observe(self, observation: Fact, *, may_be_next: bool = False) -> None:
        """Add a fact."""

    def blind(self, step: int, what: str, reason: str) -> None:
        """Report once that something is not observed, with the reason."""


class RecordKeeper:
    """Stores logged items; never raises, but reports items that cannot be stored, once by name.

    Args:
        sink: receives the facts.
        step: returns the step in progress.
        say: prints one line for the user.

    Attributes:
        waiting: facts about items logged before the first step; empty after that.
    """

    def __init__(self, sink: Sink, step: Callable[[], int], say: Callable[[str], None]) -> None:
        self._sink, self._step, self._say = sink, step, say
        self._folder: Path | None = None
        self._pending: dict[str, bytes] = {}
        self._items = self._bytes = 0
        self._limit_bytes = float(MAX_TOTAL_BYTES)
        self._reported: set[str] = set()
        self._libraries: set[str] = set()
        self._lock = threading.Lock()
        self.waiting: list[Fact] = []

    def open(self, worker: Path, limit_bytes: float | None = None) -> None:
        """Write waiting and later items to a worker's folder; raises OSError."""
        with self._lock:
            self._limit_bytes = min(MAX_TOTAL_BYTES, limit_bytes or MAX_TOTAL_BYTES)
            self._folder = worker / FOLDER
            if self._pending:
                self._folder.mkdir(exist_ok=True)
            for name, data in self._pending.items():
                replace(self._folder / name, data)
            self._pending.clear()
            self.waiting.clear()

    def close(self) -> None:
        """Record the notebook cells whose execution recorded data."""
        cells = without_secrets(cells_run())
        if cells and self._folder is not None:
            self.text(CELLS, cells[-MAX_BYTES["text"] // 4 :])  # a character has at most 4 bytes

    def parameters(self, values: Any, source: str = "script") -> None:
        """Record parameters."""
        try:
            found, left_out = flat(values)
        except Exception as err:
            self._refuse("parameters", err)
            return
        fact = ParametersLogged(step=self._step(), values=found, source=source, left_out=left_out)
        self._observe(fact)

    def text(self, name: str, text: str) -> None:
        """Record a text."""
        self._keep(name, "text", ".txt", lambda: (_text(text), {"characters": len(str(text))}))

    def table(self, name: str, rows: Any, columns: Sequence[str] | None = None) -> None:
        """Record a table."""

        def make() -> tuple[bytes, dict[str, LedgerValue]]:
            table = conversion.as_table(rows, columns)
            about: dict[str, LedgerValue] = {"rows": table.row_count, "columns": table.column_count}
            return figures.encoded(table), about

        self._keep(name, "table", ".json", make)

    def image(self, name: str, image: Any) -> None:
        """Record an image."""
        self._keep(name, "image", ".png", lambda: conversion.as_png(image))

    def predictions(self, labels: Any, scores: Any, name: str, classes: Sequence[str] = ()) -> None:
        """Record the evaluation of a classifier's scores."""

        def make() -> tuple[bytes, dict[str, LedgerValue]]:
            made = predictions(conversion.as_array(labels), conversion.as_array(scores), classes)
            about: dict[str, LedgerValue] = {"examples": made.count, "accuracy": made.accuracy}
            if len(made.roc) == 1:
                about["AUC"] = made.roc[0].area
                about["average precision"] = made.precision_recall[0].area
            return figures.encoded(made), about

        self._keep(name, "predictions", ".json", make)

    def figure(self, name: str, figure: Any) -> None:
        """Record a figure."""
        try:
            made = figures.drawn(figure)
        except Exception as err:
            self._refuse(name, err)
            return
        library = figures.library_name(made.library) if made.library else ""
        if library and not self._keep_library(library, made.library):
            return
        about: dict[str, LedgerValue] = {"format": made.form}
        self._keep(name, "figure", made.suffix, lambda: (made.data, about), library=library)

    def artifact(self, path: str | os.PathLike[str], name: str = "", *, keep: bool = False) -> None:
        """Record the digest of a file or folder, and on request its content."""
        shown = os.fspath(path)
        name = name or os.path.basename(os.path.normpath(shown)) or shown
        try:
            whole = Path(path)
            about: dict[str, LedgerValue] = {"path": storable(str(shown))[: MAX_NAME * 4]}
            if whole.is_dir():
                digest, size, count = _digest_of_folder(whole)
                about["files"] = count
                if keep:
                    raise ValueError("it is a folder; log its files one by one")
                self._add(name, "artifact", digest, size, about)
                return
            digest, size = digest_of_file(whole)
            if not keep:
                self._add(name, "artifact", digest, size, about)
                return
            _check_size("artifact", size)
            data = whole.read_bytes()
        except Exception as err:
            self._refuse(name, err)
            return
        self._keep(name, "artifact", ".bin", lambda: (data, about))

    def _keep(
        self,
        name: Any,
        kind: str,
        suffix: str,
        make: Callable[[], tuple[bytes, dict[str, LedgerValue]]],
        library: str = "",
    ) -> None:
        """Write a file, and record it in a fact."""
        try:
            if not isinstance(name, str):
                raise TypeError(f"a name must be a string, not a {type(name).__name__}")
            data, about = make()
            _check_size(kind, len(data))
            file = self._write(data, suffix)
        except Exception as err:  # an object of the user, or the disk, may raise anything
            self._refuse(str(name), err)
            return
        self._add(name, kind, hashlib.sha256(data).hexdigest(), len(data), about, file, library)

    def _keep_library(self, name: str, text: str) -> bool:
        if name in self._libraries:
            return True
        try:
            self._store(name, text.encode())
        except Exception as err:
            self._refuse(name, err)
            return False
        self._libraries.add(name)
        return True

    def _write(self, data: bytes, suffix: str) -> str:
        if self._items >= MAX_ITEMS:
            raise ValueError(f"{MAX_ITEMS:,} items were already logged; no more are stored")
        file = f"{self._items:06d}{suffix}"
        self._store(file, data)
        self._items += 1
        return file

    def _store(self, file: str, data: bytes) -> None:
        with self._lock:
            limit = self._limit_bytes if self._folder is not None else PENDING_BYTES
            if self._bytes + len(data) > limit:
                raise ValueError(
                    f"the record already has {self._bytes:,} bytes; at most {limit:,.0f} are "
                    "allowed"
                )
            if self._folder is None:
                self._pending[file] = data
            else:
                self._folder.mkdir(exist_ok=True)
                replace(self._folder / file, data)
            self._bytes += len(data)

    def _add(
        self,
        name: str,
        kind: str,
        digest: str,
        size: int,
        about: Mapping[str, LedgerValue],
        file: str = "",
        library: str = "",
    ) -> None:
        self._observe(
            ItemLogged(
                step=self._step(),
                name=storable(name)[:MAX_NAME],
                kind=kind,
                file=file,
                size_bytes=size,
                digest=digest,
                about=dict(about),
                library=library,
                time_s=time.time(),
            )
        )

    def _observe(self, fact: Fact) -> None:
        if self._folder is None:
            self.waiting.append(fact)
        self._sink.observe(fact)

    def _refuse(self, name: str, err: Exception) -> None:
        reason = in_one_line(err)
        name = storable(name)[:MAX_NAME]
        self._sink.blind(self._step(), f"logged {name}", reason)
        if name not in self._reported:
            self._reported.add(name)
            self._say(f"mothtrap: log: {name!r} is not stored: {reason}")


def _text(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"expected a string, not a {type(text).__name__}")
    _check_size("text", len(text))  # before masking, which takes time
    return storable(without_secrets(text)).encode()


def _check_size(kind: str, size: int) -> None:
    if size > MAX_BYTES[kind]:
        raise ValueError(
            f"it has {size / 2**20:,.1f} MiB; a {kind} may have {MAX_BYTES[kind] / 2**20:g} MiB; "
            "log less of it"
        )


def digest_of_file(path: Path) -> tuple[str, int]:
    """Return SHA-256 and size of a file; ValueError if it is not a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a file")
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for a writer


def _digest_of_folder(path: Path) -> tuple[str, int, int]:
    """Return SHA-256 over the names and digests of all files, and their total size and number.

    Links inside the folder are skipped.
    """
    whole, size, count = hashlib.sha256(), 0, 0
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            inside = Path(folder, name)
            if inside.is_symlink() or not inside.is_file():
                continue
            digest, own = digest_of_file(inside)
            shown = inside.relative_to(path).as_posix()
            whole.update(msgspec.json.encode([storable(shown), digest]))
            size, count = size + own, count + 1
    return whole.hexdigest(), size, count
