"""The record of a file at which a pipeline of `tf.data` has failed.

An exception of a pipeline names neither file nor record. So the files are read once more when the
script has ended: a damaged file fails at the same record, and a function of the script fails with
the same elements.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.tensorflow import names
from mothtrap.adapters.tensorflow.batches import DRAWN
from mothtrap.adapters.tensorflow.records import NotFollowedError, named, told

SECONDS: Final = 30.0
"""Time for which files are read once more; chosen by hand."""
MAX_NAMED: Final = 3
COMPRESSIONS: Final = {".gz": "GZIP", ".zlib": "ZLIB"}


def record_at_fault(kind: str) -> str:
    """Return the record at which the latest pipeline failed, in words; '' where not known.

    Args:
        kind: `record` for a damaged file, else a function of the script failed.
    """
    data = DRAWN.opened
    if data is None:
        return ""
    try:
        return damaged_record(data) if kind == "record" else ", ".join(failing_records(data))
    except Exception:  # a pipeline of the user's may do anything when it is read again
        return ""


def damaged_record(data: Any) -> str:
    """Return the first record of TFRecord files that cannot be read, in words; '' for none.

    Args:
        data: the data set that has failed.
    """
    until = time.monotonic() + SECONDS
    for path in files_of(data):
        compression = COMPRESSIONS.get(os.path.splitext(path)[1], "")
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
    """Return the records with which a function of the script fails, in words, at most three.

    Args:
        data: the data set that has failed.
    """
    until = time.monotonic() + SECONDS
    maps = [part for part in names.every_part(data) if names.transformation(part) == "Map"]
    for part in reversed(maps):  # the one next to the files first
        try:
            [given] = names.inputs_of(part)
            sound = set(_names_in(named(part), until))
            broken = [name for name in _names_in(named(given), until) if name not in sound]
        except (NotFollowedError, tf.errors.OpError):
            continue
        if time.monotonic() > until:
            return []
        if broken:
            return [told(name) for name in broken[:MAX_NAMED]]
    return []


def files_of(data: Any) -> list[str]:
    """Return the files that a pipeline reads, in order."""
    found: dict[str, None] = {}
    for part in names.every_part(data):
        paths = map(os.fsdecode, names.paths_given(part))
        found |= {path: None for path in paths if os.path.isfile(path)}
    return list(found)


def _names_in(data: Any, until: float) -> Iterator[bytes]:
    for name, _ in data.ignore_errors().as_numpy_iterator():
        yield name
        if time.monotonic() > until:
            return
