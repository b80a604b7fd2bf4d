"""Log of whole tensors: writing.

Two kinds of segments:

    raw    record, step, mode, mode_step, tensor, dtype, shape, data
    index  record, step, mode, mode_step, tensor, dtype, shape, segment, offset, size, checksum

`data` is the tensor in C order, little-endian. A row of `index` contains the position of these
bytes in the file `raw-<segment>.arrow`, so that a reader fetches a tensor with one read of its
bytes; `checksum` is xxh3_64 over them, seeded by the rest of the row.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from mothtrap.core.records import RawBlock
from mothtrap.core.steps import StepKey
from mothtrap.store import columns
from mothtrap.store.durability import Durability
from mothtrap.store.segments import ROLL_BYTES, SegmentLog

_WHICH = (
    pa.field("record", pa.int64(), nullable=False),
    pa.field("step", pa.int64(), nullable=False),
    pa.field("mode", pa.string(), nullable=False),
    pa.field("mode_step", pa.int64(), nullable=False),
    pa.field("tensor", pa.uint32(), nullable=False),
    pa.field("dtype", pa.string(), nullable=False),
    pa.field("shape", pa.list_(pa.int64()), nullable=False),
)
_ODD, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1

RAW = pa.schema([*_WHICH, pa.field("data", pa.large_binary(), nullable=False)])
INDEX = pa.schema(
    [
        *_WHICH,
        pa.field("segment", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("checksum", pa.uint64(), nullable=False),
    ]
)


class RawLog:
    """Writes the tensors of one worker without copying them.

    Args:
        folder: existing folder of the worker.
        roll_bytes: size at which a segment is sealed and the next segment begins.
        durability: failures that the tensors survive.
    """

    def __init__(
        self, folder: Path, *, roll_bytes: int = ROLL_BYTES, durability: Durability = "crash"
    ) -> None:
        log = functools.partial(SegmentLog, folder, roll_bytes=roll_bytes, durability=durability)
        self._raw = log("raw", marks_body=False)  # the index contains a checksum of each tensor
        self._index = log("index")
        self.next_seq = max(self._raw.next_seq, self._index.next_seq)

    def append(self, record: int, key: StepKey, blocks: Sequence[RawBlock]) -> None:
        """Write the tensors of one record.

        Raises:
            OSError: the disk rejected the write; the record must not be committed.
        """
        batches = [self._append(record, key, block) for block in blocks if len(block.tensor_R)]
        if batches:
            table = pa.Table.from_batches(batches).combine_chunks()
            self._index.append(table.to_batches()[0])

    def _append(self, record: int, key: StepKey, block: RawBlock) -> pa.RecordBatch:
        """Write the bytes; return the rows of the index."""
        which = _which(record, key, block)
        data = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            len(block.tensor_R),
            [None, pa.py_buffer(block.offset_R), pa.py_buffer(block.bytes_N)],
        )
        segment, end = self._raw.append(pa.record_batch([*which, data], schema=RAW))
        # The bytes are at the end of a batch, padded to a multiple of 8.
        begin = end - -(-len(block.bytes_N) // 8) * 8
        places = [
            columns.numbers(np.full(len(block.tensor_R), segment, np.int64)),
            columns.numbers(begin + block.offset_R[:-1]),
            columns.numbers(np.diff(block.offset_R)),
            columns.numbers(np.array(_checksums(record, block), np.uint64)),
        ]
        return pa.record_batch([*which, *places], schema=INDEX)

    @property
    def written_bytes(self) -> int:
        """Size of all segments that this log has written."""
        return self._raw.written_bytes + self._index.written_bytes

    def sync(self) -> None:
        """Sync the appended data to disk; raises OSError."""
        self._raw.sync()
        self._index.sync()

    def close(self) -> None:
        """Seal both segments."""
        self._raw.close()
        self._index.close()


def checksum(
    data: memoryview, *, record: int, tensor: int, dtype: str, shape: tuple[int, ...]
) -> int:
    """Return xxh3_64 of a tensor's bytes, seeded by the tensor's identity."""
    seed = (_whose(tensor, dtype, shape) + record * _ODD) & _MASK
    return xxhash.xxh3_64_intdigest(data, seed=seed)


@functools.lru_cache(maxsize=1 << 14)
def _whose(tensor: int, dtype: str, shape: tuple[int, ...]) -> int:
    return xxhash.xxh3_64_intdigest(f"{tensor} {dtype} {list(shape)}".encode())


def _checksums(record: int, block: RawBlock) -> list[int]:
    view = memoryview(block.bytes_N.data)
    starts, ends = block.offset_R[:-1].tolist(), block.offset_R[1:].tolist()
    rows = zip(block.tensor_R.tolist(), block.dtypes, block.shapes, starts, ends, strict=True)
    return [
        checksum(view[start:end], record=record, tensor=tensor, dtype=dtype, shape=shape)
        for tensor, dtype, shape, start, end in rows
    ]


def _which(record: int, key: StepKey, block: RawBlock) -> list[pa.Array]:
    rows = len(block.tensor_R)
    return [
        columns.numbers(np.full(rows, record, np.int64)),
        columns.numbers(np.full(rows, key.step, np.int64)),
        columns.repeated(key.mode.value, rows),
        columns.numbers(np.full(rows, key.mode_step, np.int64)),
        columns.numbers(block.tensor_R),
        columns.texts(block.dtypes),
        columns.lists(block.shapes),
    ]
