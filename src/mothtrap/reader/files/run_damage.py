"""Damage to the files of a run outside of attempts: snapshots, labels, marks and messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mothtrap.core.labels import Label
from mothtrap.core.marks import Mark
from mothtrap.reader.files.unread import Budget, FileChecks, digest_of
from mothtrap.store import labels, marks
from mothtrap.store.journal import journal_damage
from mothtrap.store.layout import intact
from mothtrap.store.plain_files import read_plain
from mothtrap.store.remarks import remark_damage
from mothtrap.store.snapshot_head import HEAD, MAX_HEAD_BYTES, StoredFile

SNAPSHOTS = "snapshots"


class _Whose(msgspec.Struct, frozen=True):
    worker: int
    step: int


class _Head(msgspec.Struct, frozen=True):
    files: dict[str, StoredFile]
    snapshot: _Whose


def run_damage(run: Path, files: FileChecks, budget: Budget) -> Iterator[str]:
    """Yield damage to snapshots, labels, marks, and the message journal.

    Args:
        run: folder of the run.
        files: checks of the files of the run.
        budget: bytes that the checks may read.
    """
    for folder in sorted(run.glob(f"{SNAPSHOTS}/[0-9]*/w*")):
        yield from _snapshot_damage(folder, files, budget)
    yield from remark_damage(run, labels.FOLDER, Label)
    yield from remark_damage(run, marks.FOLDER, Mark)
    yield from journal_damage(run)


def _snapshot_damage(folder: Path, files: FileChecks, budget: Budget) -> Iterator[str]:
    path, said = folder / HEAD, f"{folder.parent.name}/{folder.name}"
    try:
        data = read_plain(path, MAX_HEAD_BYTES)
        good = b',"checksum":"' in data and intact(data)
        head = msgspec.json.decode(data, type=_Head) if good else None
    except OSError as err:
        yield f"the snapshot {said} is lost: {HEAD} cannot be read: {err.strerror}"
        return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        yield f"the snapshot {said} is lost: {HEAD} cannot be read: {err}"
        return
    if head is None:
        yield f"the snapshot {said} is lost: {HEAD} does not match its checksum"
        return
    whose = head.snapshot
    if (f"{whose.step:08d}", f"w{whose.worker}") != (folder.parent.name, folder.name):
        yield f"the snapshot {said} is a copy of {whose.step:08d}/w{whose.worker}"
        return
    for name, expected in head.files.items():

        def check(path: Path, expected: StoredFile = expected) -> str:
            good = digest_of(path) == expected.xxh3_64
            return "" if good else "its bytes do not match its checksum"

        if found := files.damage(folder / Path(name).name, budget, expected.size, check):
            yield f"the snapshot {said} is lost: {name}: {found}"
