"""Many messages with the same layout, joined into one batch.

A training run writes the statistics of the same tensors at every step. These messages differ only
in their mark and their numbers. Arrow reads only the first message. Its columns are at the same
positions in all messages, so each column needs only one copy. Messages are only joined if words
(the names of scalars) are the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.store import columns, sealing
from mothtrap.store.pages import Data

MANY = 32
"""Minimum number of messages of one length for a separate batch; chosen by hand."""


class Found(NamedTuple):
    """Intact messages in the data read: the beginning and end of each."""

    starts: list[int]
    ends: list[int]


def stretches(found: Found) -> Iterator[Found]:
    """Split messages into contiguous groups, and single messages of equal length."""
    if len(found.starts) == 1:  # as in a growing run, at every step
        yield found
        return
    start_M, end_M = np.array(found.starts, np.int64), np.array(found.ends, np.int64)
    apart_M = np.ones(len(start_M), np.bool_)
    apart_M[1:] = start_M[1:] != end_M[:-1]
    runs = np.flatnonzero(apart_M | (np.diff(end_M - start_M, prepend=-1) != 0)).tolist()
    borders = set()
    for first, stop in pairwise([*runs, len(start_M)]):
        if apart_M[first]:
            borders.add(first)
        if stop - first >= MANY:
            borders |= {first, stop}
    for first, stop in pairwise(sorted(borders | {len(start_M)})):
        yield Found(found.starts[first:stop], found.ends[first:stop])


def joined(
    data: Data, found: Found, first: pa.RecordBatch, message: pa.Buffer
) -> pa.RecordBatch | None:
    """Create one batch from contiguous messages.

    Args:
        data: bytes that were read.
        found: the messages.
        first: requested columns of the first message.
        message: bytes of the first message, from which Arrow created `first`.

    Returns:
        None if the layouts of the messages differ, or if a column neither contains numbers without
        nulls nor the same words in each message.
    """
    if not _same_layout(data, found):
        return None
    arrays = []
    for column in first.columns:
        array = _joined_column(data, found, column, message)
        if array is None:
            return None
        arrays.append(array)
    return pa.record_batch(arrays, schema=first.schema)


def _same_layout(data: Data, found: Found) -> bool:
    """Return whether all messages have equal length, and equal metadata except for the marks."""
    start, length = found.starts[0], found.ends[0] - found.starts[0]
    if found.ends != [start + length * (i + 1) for i in range(len(found.ends))]:
        return False
    metadata = sealing.metadata_bytes(data, start) or 0
    mark = sealing.find_mark(data, start, metadata)
    if mark is None:
        return False
    head_ML = _bytes(data, found, 0, sealing.HEADER_BYTES + metadata)
    mark_at = sealing.mark_start(mark) - start
    around = head_ML[:, :mark_at], head_ML[:, mark_at + len(sealing.BLANK_MARK) :]
    return all(bool(np.all(part_ML == part_ML[0])) for part_ML in around)


def _joined_column(
    data: Data, found: Found, column: pa.Array, message: pa.Buffer
) -> pa.Array | None:
    kind, rows = column.type, len(column)
    if pa.types.is_string(kind):
        return _repeated_words(data, found, column, message)
    listed = pa.types.is_fixed_size_list(kind)
    flat = kind.value_type if listed else kind
    if not (pa.types.is_integer(flat) or pa.types.is_floating(flat)):
        return None
    buffers = column.buffers()
    if column.offset or any(buffers[:-1]) or buffers[-1] is None:
        return None
    numbers = rows * (kind.list_size if listed else 1)
    size = numbers * flat.bit_width // 8
    at = buffers[-1].address - message.address
    if at < 0 or at + size > message.size:
        return None
    copied = pa.py_buffer(np.ascontiguousarray(_bytes(data, found, at, size)))
    values = pa.Array.from_buffers(flat, numbers * len(found.starts), [None, copied])
    if not listed:
        return values
    return pa.Array.from_buffers(kind, rows * len(found.starts), [None], children=[values])


def _repeated_words(
    data: Data, found: Found, column: pa.Array, message: pa.Buffer
) -> pa.Array | None:
    """Return the words of the first message, repeated for each message; None if they differ."""
    buffers = column.buffers()
    if column.offset or buffers[0] is not None:
        return None
    for buffer in buffers[1:]:
        if buffer is None or not buffer.size:
            continue
        at = buffer.address - message.address
        if at < 0 or at + buffer.size > message.size:
            return None
        same_ML = _bytes(data, found, at, buffer.size)
        if not bool(np.all(same_ML == same_ML[0])):
            return None
    return column.take(columns.numbers(np.tile(np.arange(len(column)), len(found.starts))))


def _bytes(data: Data, found: Found, at: int, size: int) -> npt.NDArray[np.uint8]:
    """Return the same bytes of each message, shape (messages, size), without a copy."""
    strides = (found.ends[0] - found.starts[0], 1)
    return np.ndarray((len(found.starts), size), np.uint8, data, found.starts[0] + at, strides)
