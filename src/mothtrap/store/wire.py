"""Conversion of a step record to bytes that are passed to another process.

A message is the length of its head (8 bytes, little-endian), the head in MessagePack, and the
arrays of the record as in memory, each part padded to a multiple of 8 bytes. Both processes run the
same version of mothtrap on the same machine, and messages are not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core import fact
from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.texts import storable_value

Bytes = npt.NDArray[np.uint8]
_ALIGNMENT = 8
_LENGTH_BYTES = 8


class _RawHead(msgspec.Struct, frozen=True, array_like=True):
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    size: int


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """All of a record except its arrays, and the sizes of these; decoded facts are plain values."""

    key: StepKey
    wall_s: float
    optimizers: tuple[str, ...]
    skipped: bool
    defined: tuple[tuple[int, TensorInfo], ...]
    scalars: tuple[Scalar, ...]
    observations: tuple[Any, ...]
    tensors: int
    width: int
    raw: tuple[_RawHead, ...]


def encode(record: StepRecord) -> list[Bytes]:
    """Return the parts of a record's message, without copying large arrays."""
    head = _Head(
        key=record.key,
        wall_s=record.wall_s,
        optimizers=record.optimizers,
        skipped=record.skipped,
        defined=record.defined,
        scalars=record.scalars,
        observations=record.observations,
        tensors=len(record.tensor_T),
        width=record.summary_TF.shape[1],
        raw=tuple(_RawHead(b.dtypes, b.shapes, len(b.bytes_N)) for b in record.raw),
    )
    try:
        text = msgspec.msgpack.encode(head, enc_hook=_number)
    except UnicodeEncodeError:
        plain = storable_value(msgspec.to_builtins(head, enc_hook=_number))
        text = msgspec.msgpack.encode(plain)
    arrays = [_bytes(record.tensor_T, np.uint32), _bytes(record.summary_TF, np.float64)]
    for block in record.raw:
        arrays += [
            _bytes(block.tensor_R, np.uint32),
            _bytes(block.offset_R, np.int64),
            _bytes(block.bytes_N, np.uint8),
        ]
    parts = [np.frombuffer(len(text).to_bytes(_LENGTH_BYTES, "little"), np.uint8)]
    for part in (np.frombuffer(text, np.uint8), *arrays):
        padding = -len(part) % _ALIGNMENT
        parts += [part, np.zeros(padding, np.uint8)] if padding else [part]
    return parts


def decode(message: Bytes) -> StepRecord:
    """Return the record in a message; its arrays are views of the message.

    Raises:
        msgspec.DecodeError: the message was not made by `encode`.
    """
    length = int.from_bytes(message[:_LENGTH_BYTES].tobytes(), "little")
    at = _LENGTH_BYTES + _padded(length)
    text = message[_LENGTH_BYTES : _LENGTH_BYTES + length]
    head = msgspec.msgpack.decode(text.data, type=_Head)

    def take(count: int, dtype: type[np.generic]) -> npt.NDArray[np.generic]:
        nonlocal at
        size = count * np.dtype(dtype).itemsize
        part = message[at : at + size].view(dtype)
        at += _padded(size)
        return part

    tensor_T = cast("npt.NDArray[np.uint32]", take(head.tensors, np.uint32))
    summary = cast("npt.NDArray[np.float64]", take(head.tensors * head.width, np.float64))
    blocks = [
        RawBlock(
            tensor_R=cast("npt.NDArray[np.uint32]", take(len(raw.dtypes), np.uint32)),
            dtypes=raw.dtypes,
            shapes=raw.shapes,
            offset_R=cast("npt.NDArray[np.int64]", take(len(raw.dtypes) + 1, np.int64)),
            bytes_N=cast("Bytes", take(raw.size, np.uint8)),
        )
        for raw in head.raw
    ]
    return StepRecord(
        key=head.key,
        wall_s=head.wall_s,
        optimizers=head.optimizers,
        skipped=head.skipped,
        defined=head.defined,
        tensor_T=tensor_T,
        summary_TF=summary.reshape(head.tensors, head.width),
        scalars=head.scalars,
        observations=tuple(fact.restored(values) for values in head.observations),
        raw=tuple(blocks),
    )


def size_of(parts: Sequence[Bytes]) -> int:
    """Return the length of a message in bytes."""
    return sum(len(part) for part in parts)


def _number(value: object) -> object:
    """Convert a NumPy number, which msgspec does not support, to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is a {type(value).__name__}, which a record must not contain")


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT


def _bytes(array: npt.ArrayLike, dtype: type[np.generic]) -> Bytes:
    return np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8)
