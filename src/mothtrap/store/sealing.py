"""Seals that bind a batch in a segment to its bytes, its position and its schema.

Every batch message carries a mark in its metadata: the batch's number in the segment,
the length of its body, and xxh3_64 over the whole message (with the digits of the
checksum itself read as zeros), seeded by the schema message and the batch's number.
So a reader checks that every byte of a message is unchanged before it is passed to Arrow. For
messages whose body is checked elsewhere (see `raw_log`), the mark covers only the metadata, and no
reader treats them as messages.
"""

from __future__ import annotations

import os
import struct
from binascii import unhexlify
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from mothtrap.store.pages import Data
from mothtrap.store.plain_files import open_plain

Bytes = Any
"""Anything with the buffer protocol: bytes, arrays, Arrow buffers."""
CONTINUATION = b"\xff\xff\xff\xff"
HEADER_BYTES = 8
TRAILER_BYTES = 10
"""Size of the trailer after a footer: the footer's length, and the magic bytes."""
MAX_METADATA_BYTES = 1 << 20
"""Maximum size of metadata; chosen by hand: a batch of our schemas has under 1 kB."""
MAX_BODY_BYTES = 1 << 31
"""Maximum size of a body; chosen by hand far above a segment's size: a greater length is damage."""
MARK_WITHIN_BYTES = 4096
"""Maximum distance of a mark from the start of its message; chosen by hand."""

MARK_KEY = b"mothtrap"
_TAG = b"batch:"
_ZEROS = b"0" * 16
_NUMBERS = struct.Struct(">IQQ")
BLANK_MARK = _TAG + b"0" * 8 + b"0" * 16 + _ZEROS
_MASK = (1 << 64) - 1


class Mark(NamedTuple):
    """Content of a message's mark; `end` is the offset after its body."""

    number: int
    end: int
    checksum_at: int
    checksum: int


def metadata_bytes(data: Data, offset: int) -> int | None:
    """Return the length of the metadata of the message at `offset`.

    Returns:
        0 for the end-of-stream marker, -1 if it is not a message, None if `data` ends before the
        length is known.
    """
    if len(data) - offset < HEADER_BYTES:
        return None if data[offset:].startswith(CONTINUATION[: len(data) - offset]) else -1
    if data[offset : offset + 4] != CONTINUATION:
        return -1
    (length,) = struct.unpack_from("<i", data, offset + 4)
    return length if 0 <= length <= MAX_METADATA_BYTES and length % 8 == 0 else -1


def find_mark(data: Data, offset: int, metadata: int) -> Mark | None:
    """Read the mark of the message at `offset`; None if there is no valid mark."""
    body_at = offset + HEADER_BYTES + metadata
    at = data.find(_TAG, offset + HEADER_BYTES, body_at)
    digits = data[at + len(_TAG) : at + len(BLANK_MARK)]
    if at < 0 or at + len(BLANK_MARK) > min(body_at, len(data)):
        return None
    try:
        index, body, checksum = _NUMBERS.unpack(unhexlify(digits))
    except ValueError:
        return None
    if body > MAX_BODY_BYTES or body % 8:
        return None
    checksum_at = at + len(_TAG) + 24
    return Mark(number=index, end=body_at + body, checksum_at=checksum_at, checksum=checksum)


def mark_start(mark: Mark) -> int:
    """Return the offset at which a mark begins."""
    return mark.checksum_at - len(BLANK_MARK) + len(_ZEROS)


def matches(data: Data, offset: int, mark: Mark, seed: int) -> bool:
    """Return whether the message from `offset` to `mark.end` is unchanged."""
    return _checksum(data, offset, mark, seed) == mark.checksum


def seal(
    parts: Sequence[Bytes], index: int, seed: int, *, with_body: bool = True
) -> tuple[Bytes, ...]:
    """Fill in the blank mark of a newly serialized message, without copying its body.

    Args:
        parts: one complete Arrow message; its first part contains all of its metadata, including
            `BLANK_MARK`.
        index: the batch's number in its segment.
        seed: digest of the segment's schema message.
        with_body: whether the mark also covers the body.
    """
    head = bytearray(parts[0])
    (metadata,) = struct.unpack_from("<i", head, 4)
    at = head.index(BLANK_MARK, 0, HEADER_BYTES + metadata)
    body = sum(memoryview(part).nbytes for part in parts) - HEADER_BYTES - metadata
    head[at : at + len(BLANK_MARK)] = _TAG + b"%08x%016x" % (index, body) + _ZEROS
    state = xxhash.xxh3_64(seed=(seed + index) & _MASK)
    if with_body:
        state.update(head)
        for part in parts[1:]:
            state.update(memoryview(part))
    else:
        state.update(memoryview(head)[: HEADER_BYTES + metadata])
    checksum_at = at + len(_TAG) + 24
    head[checksum_at : checksum_at + 16] = b"%016x" % state.intdigest()
    return bytes(head), *parts[1:]


def schema_seed(schema_message: bytes) -> int:
    """Return the digest of a segment's schema message."""
    return xxhash.xxh3_64_intdigest(schema_message)


def next_message(data: Data, offset: int, seed: int, index: int) -> tuple[int, Mark] | None:
    """Find the first intact message from `offset` on with a number of at least `index`."""
    at = offset
    while (at := data.find(_TAG, at + 1)) >= 0:
        lowest = max(offset, at - MARK_WITHIN_BYTES)
        start = data.rfind(CONTINUATION, lowest, at)
        while start >= 0:
            metadata = metadata_bytes(data, start)
            mark = find_mark(data, start, metadata) if metadata and metadata > 0 else None
            if (
                mark is not None
                and index <= mark.number
                and mark.end <= len(data)
                and matches(data, start, mark, seed)
            ):
                return start, mark
            # These bytes may occur by chance inside the metadata, so the start may be further back.
            start = data.rfind(CONTINUATION, lowest, start + len(CONTINUATION) - 1)
    return None


def footer_bytes(data: bytes) -> int | None:
    """Return the length of the footer at the end of `data`; None if there is none."""
    if len(data) < TRAILER_BYTES or not data.endswith(b"ARROW1"):
        return None
    (length,) = struct.unpack_from("<i", data, len(data) - TRAILER_BYTES)
    return length if length > 0 else None


def footer_offset(data: bytes) -> int | None:
    """Return the offset of the end-of-stream marker if `data` ends with a complete footer."""
    length = footer_bytes(data)
    at = len(data) - TRAILER_BYTES - length - HEADER_BYTES if length is not None else -1
    if at < 0:
        return None
    return at if data[at : at + HEADER_BYTES] == CONTINUATION + b"\0\0\0\0" else None


def _checksum(data: Data, offset: int, mark: Mark, seed: int) -> int:
    view = memoryview(data)
    state = xxhash.xxh3_64(seed=(seed + mark.number) & _MASK)
    state.update(view[offset : mark.checksum_at])
    state.update(_ZEROS)
    state.update(view[mark.checksum_at + 16 : mark.end])
    return state.intdigest()


def is_sealed(path: Path) -> bool:
    """Return whether a segment file ends with a complete footer, so that it is final."""
    tail_bytes = HEADER_BYTES + TRAILER_BYTES
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - TRAILER_BYTES, 0))
        footer = footer_bytes(file.read())
        if footer is None or footer + tail_bytes > size:
            return False
        file.seek(size - footer - tail_bytes)
        return footer_offset(file.read()) == 0
