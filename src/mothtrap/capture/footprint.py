"""Rough memory footprint of a step record."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from mothtrap.core.records import RawBlock, StepRecord

RECORD_BYTES = 1024
"""Bytes of a record without its content."""
SCALAR_BYTES = 128
"""Approximate bytes of a number with its names."""
OBSERVATION_BYTES = 512
"""Bytes of a fact without its texts; including them if they cannot be measured."""
_TEXTS = msgspec.msgpack.Encoder(enc_hook=str)


def footprint(record: StepRecord) -> int:
    """Return the size of a record in bytes, without stored tensor values.

    Stored tensor values have a separate limit, see `arena`.
    """
    size = RECORD_BYTES + int(record.summary_TF.nbytes) + SCALAR_BYTES * len(record.scalars)
    if record.pending is not None:
        size += record.pending.nbytes
    if not record.observations:
        return size
    size += OBSERVATION_BYTES * len(record.observations)
    try:
        return size + len(_TEXTS.encode(record.observations))  # a few microseconds for 4 kB
    except (UnicodeEncodeError, ValueError):  # half a surrogate pair; nested too deeply
        return size


def held_bytes(blocks: Iterable[RawBlock]) -> int:
    """Return the memory held by tensors, counting the blocks that start with one of them."""
    pieces = ((block.bytes_N.base, block.bytes_N) for block in blocks)
    return sum(base.nbytes if isinstance(base, np.ndarray) else own.nbytes for base, own in pieces)
