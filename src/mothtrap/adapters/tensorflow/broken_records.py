"""The record of a file at which a pipeline of `tf.data` has failed.

The exception of a pipeline names neither the file nor the record. So the files are read again after
the script has ended: a damaged file fails at the same record, and a function of the script fails
for the same elements.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.tensorflow import internals
from mothtrap.adapters.tensorflow.probes.batches import DRAWN
from mothtrap.adapters.tensorflow.records import BETWEEN, NotFollowedError, named, told, unpacked

SECONDS: Final = 30.0
"""Maximum time for reading files again, in seconds; chosen by hand."""
MAX_NAMED: Final = 3
COMPRESSIONS: Final = {".gz": "GZIP", ".zlib": "ZLIB"}
GZIP_BEGINS: Final = b"\x1f\x8b\x08"
"""First bytes of a gzip file with the only compression method (RFC 1952)."""
OPENING: Final = ("FlatMap", "Interleave")
"""Transformations that create a dataset from each element, such as the records of a file."""


def record_at_fault(kind: str) -> str:
    """Return the record at which the latest pipeline failed, as text; '' if unknown.

    Args:
        kind: `record` for a damaged file, `compressed` for a compressed file that is read as
            uncompressed; otherwise a function of the script failed.
    """
    data = DRAWN.opened
    if data is None:
        return ""
    try:
        if kind == "compressed":
            return compressed_file(data)
        return damaged_record(data) if kind == "record" else ", ".join(failing_records(data))
    except Exception:  # the user's pipeline may do anything when it is read again
        return ""


def damaged_record(data: Any) -> str:
    """Return the first unreadable record in TFRecord files, as text; '' if none.

    Args:
        data: the dataset that failed.
    """
    until = time.monotonic() + SECONDS
    for path in files_of(data):
        compression = "GZIP" if _is_gzip(path) else COMPRESSIONS.get(os.path.splitext(path)[1], "")
        count = 0
        try:
            for _ in tf.data.TFRecordDataset(path, compression).as_numpy_iterator():
                count += 1
                if time.monotonic() > until:
                    return ""
        except tf.errors.OpError:
            return f"record {count} of {path}"
    return ""


def failing_records(data: Any) -> list[str]:
    """Return up to three records for which a function of the script fails, as text.

    Args:
        data: the dataset that failed.
    """
    until = time.monotonic() + SECONDS
    return [told(name) for name in islice(_failing(data, until), MAX_NAMED)]


def _failing(data: Any, until: float) -> Iterator[bytes]:
    """Yield the names of elements for which a `map` fails; maps next to the files first."""
    for part in reversed(list(internals.every_part(data))):
        kind = internals.transformation(part)
        if kind in OPENING:
            yield from _failing_inside(part, until)
        if kind != "Map":
            continue
        try:
            [given] = internals.inputs_of(part)
            sound = set(_names_in(named(part), until))
            broken = [name for name in _names_in(named(given), until) if name not in sound]
        except (NotFollowedError, tf.errors.OpError):
            continue
        if time.monotonic() > until:
            return
        yield from broken
        if broken:
            return


def _failing_inside(part: Any, until: float) -> Iterator[bytes]:
    """Yield the names of elements for which the datasets created by a function fail."""
    function = internals.function_of(part)
    try:
        [given] = internals.inputs_of(part)
        for name, element in named(given):
            if time.monotonic() > until:
                return
            inner = function(*unpacked(element))
            yield from (name.numpy() + BETWEEN.encode() + one for one in _failing(inner, until))
    except (NotFollowedError, tf.errors.OpError):
        return


def compressed_file(data: Any) -> str:
    """Return the first gzip file in a dataset, as text; '' if none."""
    found = next((path for path in files_of(data) if _is_gzip(path)), "")
    return f"{found}, which is compressed with gzip" if found else ""


def _is_gzip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(3) == GZIP_BEGINS


def files_of(data: Any) -> list[str]:
    """Return the files that a pipeline reads, in order."""
    found: dict[str, None] = {}
    for part in internals.every_part(data):
        paths = map(os.fsdecode, internals.paths_given(part))
        found |= {path: None for path in paths if os.path.isfile(path)}
    return list(found)


def _names_in(data: Any, until: float) -> Iterator[bytes]:
    for name, _ in data.ignore_errors().as_numpy_iterator():
        yield name
        if time.monotonic() > until:
            return
