"""Check the parts of a run that have not been read yet.

Numbers are read on demand, so a reader that never asks for them would not notice that they are
lost. These checks read the remaining files, compare checksums, and keep no data.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
import stat
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import xxhash

from mothtrap.core.errors import DamagedDataError, StoreError
from mothtrap.core.facts.record import ItemLogged
from mothtrap.core.record_items import FILE, FOLDER, MAX_BYTES
from mothtrap.reader.files.committed_rows import CommittedRows
from mothtrap.reader.files.raw_rows import index_row
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.store import layout
from mothtrap.store.machine_log import FOLDER as MACHINE
from mothtrap.store.machine_log import TABLE
from mothtrap.store.output_log import kept_output
from mothtrap.store.plain_files import open_plain, read_plain
from mothtrap.store.progress import size_of
from mothtrap.store.raw_reading import read_bytes
from mothtrap.store.tailing import MAX_SEGMENT_BYTES, SegmentTail

PIECE_BYTES = 1 << 22
"""Number of bytes of a file that are hashed at a time; chosen by hand."""


class Budget:
    """Limit on the bytes that checks may read.

    Args:
        limit_bytes: total for the statistics, whole tensors, and files of one run.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes

    def covers(self, size_bytes: int) -> bool:
        """Return whether this many more bytes may be read; if so, count them."""
        if size_bytes > self._left:
            return False
        self._left -= size_bytes
        return True


class FileChecks:
    """Checks of whole files; an unchanged file is checked only once."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, str]] = {}

    def damage(
        self, path: Path, budget: Budget, size_bytes: int, check: Callable[[Path], str]
    ) -> str:
        """Return the damage to a file; "" if it is intact.

        Args:
            path: path of the file.
            budget: reduced by the file size; a file that does not fit is not checked.
            size_bytes: size when it was written.
            check: compares the content; returns what is wrong, or raises OSError.
        """
        try:
            status = os.stat(path)
        except OSError as err:
            return f"{path} cannot be read: {err.strerror}"
        signature = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == signature:
            return known[1]
        if stat.S_ISREG(status.st_mode) and status.st_size != size_bytes:
            return f"{path} has {status.st_size:,} bytes, not the {size_bytes:,} written"
        if not budget.covers(size_bytes):
            return ""
        try:
            found = check(path)
        except OSError as err:
            found = f"{path} cannot be read: {err.strerror}"
        self._known[path] = signature, found
        return found


class UnreadOfWorker:
    """Checks a worker's folder beyond its events; each byte is read once.

    Args:
        view: view of the worker, which is refreshed elsewhere.
        files: checks of the files of the run.
    """

    def __init__(self, view: WorkerView, files: FileChecks) -> None:
        self._view, self._files = view, files
        self._statistics: CommittedRows | None = None
        self._timed: dict[str, SegmentTail] = {}
        self._tensors = 0
        self._unchecked = array("q")
        self._lost: list[str] = []

    def damage(self, budget: Budget, *, ended: bool, elsewhere: bool) -> Iterator[str]:
        """Yield the damage, including damage that earlier calls found.

        Args:
            budget: budget for large files; scalars and the index of tensors are always read.
            ended: the writer has ended, so an incomplete end counts as damage.
            elsewhere: files may be in an object store, so a missing local file is not damage.
        """
        view = self._view
        view.scalars()
        self._check_tensors(budget, elsewhere=elsewhere)
        place = view.folder.parent.name
        yield from (f"{place}/{text}" for text in self._rows_damage(budget, ended=ended))
        for read in (layout.read_ledger, layout.read_source_texts):
            try:
                read(view.folder)
            except DamagedDataError as err:
                yield str(err)
        if ended:
            yield from self._items_damage(budget, elsewhere=elsewhere)

    def _rows_damage(self, budget: Budget, *, ended: bool) -> Iterator[str]:
        """Yield the damage to rows of numbers and to tensors."""
        folder = self._view.folder
        yield from self._statistics_damage(budget, ended=ended)
        if self._lost:
            count = len(self._lost)
            noun = "tensor kept whole" if count == 1 else "tensors kept whole"
            yield f"{folder.name}: {count:,} {noun} cannot be read; the first: {self._lost[0]}"
        for table in layout.tables(folder):
            if table.startswith(layout.TIMED):
                yield from tail_damage(self._timed, folder, table, ended=ended)

    def _statistics_damage(self, budget: Budget, *, ended: bool) -> Iterator[str]:
        view = self._view
        if view.has_read_statistics:  # otherwise the view reports it
            return
        if self._statistics is None:
            size = size_of(view.folder, "stats")
            if not budget.covers(size) and not _has_huge(view.folder, "stats"):
                return
            self._statistics = CommittedRows(view.folder, "stats", "tensors", ("record",))
        for _ in self._statistics.poll(view.commits):
            pass
        yield from self._statistics.damage(view.commits, ended=ended)

    def _check_tensors(self, budget: Budget, *, elsewhere: bool) -> None:
        """Check the bytes of the tensors that no earlier call has checked."""
        pieces = self._view.raw()
        ends = list(itertools.accumulate(len(piece.commit_N) for piece in pieces))
        before, known = self._unchecked, self._tensors
        self._tensors, self._unchecked = max(known, ends[-1] if ends else 0), array("q")
        for number in itertools.chain(before, range(known, self._tensors)):
            at = bisect.bisect_right(ends, number)
            piece = pieces[at]
            place = number - ends[at] + len(piece.commit_N)
            row = index_row(self._view, int(piece.commit_N[place]), piece, place)
            path = layout.segment_path(self._view.folder, "raw", row.segment)
            if (elsewhere and not path.exists()) or not budget.covers(max(0, row.size)):
                self._unchecked.append(number)
                continue
            try:
                read_bytes(self._view.folder, row)
            except DamagedDataError as err:
                self._lost.append(str(err))
            except StoreError:
                continue

    def _items_damage(self, budget: Budget, *, elsewhere: bool) -> Iterator[str]:
        """Yield the damage to the files that the script has logged."""
        for item in self._view.observations:
            if not isinstance(item, ItemLogged) or not FILE.fullmatch(item.file):
                continue
            path = self._view.folder / FOLDER / item.file
            if elsewhere and not path.exists():
                continue

            def check(path: Path, item: ItemLogged = item) -> str:
                data = read_plain(path, MAX_BYTES.get(item.kind, 0), follow=False)
                good = hashlib.sha256(data).hexdigest() == item.digest
                return "" if good else f"{path} is damaged: the script logged other content"

            if found := self._files.damage(path, budget, item.size_bytes, check):
                yield found


def _has_huge(folder: Path, table: str) -> bool:
    """Return whether a segment (possibly sparse) is too long, so that its reader rejects it."""
    paths = (layout.segment_path(folder, table, seq) for seq in layout.segments(folder, table))
    return any(os.path.exists(p) and os.stat(p).st_size > MAX_SEGMENT_BYTES for p in paths)


def tail_damage(
    tails: dict[str, SegmentTail], folder: Path, table: str, *, ended: bool
) -> Iterator[str]:
    """Read a time-ordered table to its end, and yield its damage.

    Args:
        tails: readers that continue where they stopped, by table.
        folder: folder of the table.
        table: name of the table.
        ended: the writer has ended, so an incomplete end counts as damage.
    """
    tail = tails.setdefault(table, SegmentTail(folder, table, ("time_s",)))
    while tail.poll():
        pass
    yield from (*tail.damage, *(tail.pending if ended else ()))


def attempt_damage(attempt: Path, tails: dict[str, SegmentTail], *, ended: bool) -> Iterator[str]:
    """Yield damage to files of an attempt that belong to no worker or monitor.

    Args:
        attempt: folder of the attempt.
        tails: as in `tail_damage`.
        ended: the job of the attempt has ended.
    """
    try:
        layout.read_source(attempt)
    except DamagedDataError as err:
        yield str(err)
    for text in tail_damage(tails, attempt / MACHINE, TABLE, ended=ended):
        yield f"{attempt.name}/{text}"
    for _, path in kept_output(attempt):
        try:
            os.close(open_plain(path, follow=False))
        except OSError as err:
            yield f"{path} cannot be read: {err.strerror}"


def digest_of(path: Path) -> str:
    """Return the xxh3_64 digest of a plain file; raises OSError."""
    hashed = xxhash.xxh3_64()
    with os.fdopen(open_plain(path), "rb") as file:
        while piece := file.read(PIECE_BYTES):
            hashed.update(piece)
    return hashed.hexdigest()
