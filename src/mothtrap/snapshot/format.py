"""The files of a snapshot, one folder for each worker and step.

    RUN/snapshots/<step>/w<rank>/state.safetensors   state before the step
    RUN/snapshots/<step>/w<rank>/steps.safetensors   inputs of the step
    RUN/snapshots/<step>/w<rank>/snapshot.json       everything else, and the checksums of these

The folder is either complete or does not exist. Data is compared with its checksum before any
use, and read only by parsers of arrays and of JSON.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import xxhash
from safetensors import SafetensorError
from safetensors import deserialize as _untyped

from mothtrap.core import jsonable
from mothtrap.core.errors import DamagedSnapshotError, UnknownNameError
from mothtrap.core.snapshots import Array, Snapshot
from mothtrap.statistics.dtypes import dtype_of
from mothtrap.store.durability import sync_file, sync_folder
from mothtrap.store.layout import intact, sealed
from mothtrap.store.plain_files import read_plain
from mothtrap.store.snapshot_head import HEAD, MAX_HEAD_BYTES, StoredFile

deserialize: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = _untyped

FORM = 1
"""Version of the files; files with another version were written by another version of mothtrap."""

STATE, STEPS = "state.safetensors", "steps.safetensors"

CHUNK_BYTES = 1 << 22
"""Number of bytes per write; other threads get the processor between two writes."""

FOREIGN = "foreign"
"""Key of types that the format does not have; their arrays are stored as bytes."""

_CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_NAMES = {code: name for name, code in _CODES.items()}
_STEP = re.compile(r"[0-9]{8,}")
_WORKER = re.compile(r"w(0|[1-9][0-9]{0,8})")


class _Head(msgspec.Struct, frozen=True):
    form: int
    files: dict[str, StoredFile]
    snapshot: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """A snapshot with its arrays, by the keys that its trees name.

    Attributes:
        folder: folder of the snapshot.
        state: arrays of the state.
        steps: arrays of the recorded steps.
    """

    folder: Path
    snapshot: Snapshot
    state: Mapping[str, Array]
    steps: Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A stored snapshot whose arrays have not been read.

    Attributes:
        size_bytes: size of all its files.
        snapshot: description of the snapshot; None if it cannot be read.
        damage: reason why it cannot be read.
    """

    folder: Path
    step: int
    worker: int
    size_bytes: int
    snapshot: Snapshot | None
    damage: str = ""


def folder_of(run: Path, step: int, worker: int) -> Path:
    """Return the folder of a snapshot of a run."""
    return run / "snapshots" / f"{step:08d}" / f"w{worker}"


def write(
    folder: Path,
    snapshot: Snapshot,
    state_arrays: Mapping[str, Array] | Path,
    step_arrays: Mapping[str, Array],
) -> None:
    """Write a snapshot, replacing an existing one.

    Args:
        folder: see `folder_of`.
        snapshot: its trees name arrays.
        state_arrays: arrays of the state, by key; or the folder of another snapshot with the same
            state.
        step_arrays: arrays of the recorded steps.

    Raises:
        OSError: the folder cannot be written; no partial snapshot remains.
    """
    draft = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
    draft.mkdir(parents=True)
    try:
        files = {
            STATE: _take_over(state_arrays, draft)
            if isinstance(state_arrays, Path)
            else _write_arrays(draft / STATE, state_arrays),
            STEPS: _write_arrays(draft / STEPS, step_arrays),
        }
        head = {"form": FORM, "files": files, "snapshot": snapshot}
        with (draft / HEAD).open("wb") as file:
            file.write(sealed(jsonable.encode(head)))
            file.flush()
            sync_file(file.fileno())
        _put_in_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _remove_if_empty(folder.parent)


def read_head(folder: Path) -> Snapshot:
    """Read the description of a snapshot without its arrays.

    Raises:
        DamagedSnapshotError: see `load`.
    """
    return _read_head(folder)[1]


def load(folder: Path) -> Loaded:
    """Read a complete snapshot.

    Raises:
        DamagedSnapshotError: one of its files is incomplete, changed or missing; the message names
            it.
    """
    head, snapshot = _read_head(folder)
    arrays = {}
    for name in (STATE, STEPS):
        arrays[name] = _read_arrays(folder / name, head.files.get(name))
    return Loaded(folder=folder, snapshot=snapshot, state=arrays[STATE], steps=arrays[STEPS])


def stored(run: Path) -> list[Stored]:
    """Return the snapshots of a run, by step and worker, including damaged ones."""
    found = []
    for step in sorted(
        (name for name in _names(run / "snapshots") if _STEP.fullmatch(name)), key=int
    ):
        workers = [name for name in _names(run / "snapshots" / step) if _WORKER.fullmatch(name)]
        for worker in sorted(workers, key=lambda name: int(name[1:])):
            found.append(_look(run / "snapshots" / step / worker, int(step), int(worker[1:])))
    return found


def remove(folder: Path) -> None:
    """Remove a snapshot: it disappears at once, and is then deleted from the disk.

    Raises:
        OSError: it cannot be removed.
    """
    gone = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
    os.rename(folder, gone)
    shutil.rmtree(gone)
    _remove_if_empty(folder.parent)


def _look(folder: Path, step: int, worker: int) -> Stored:
    snapshot, damage = None, ""
    try:
        snapshot = _read_head(folder)[1]
    except DamagedSnapshotError as err:
        damage = str(err)
    size = 0
    for name in (STATE, STEPS, HEAD):
        try:
            size += (folder / name).stat().st_size
        except OSError:
            continue
    return Stored(
        folder=folder,
        step=step,
        worker=worker,
        size_bytes=size,
        snapshot=snapshot,
        damage=damage,
    )


# Writing


def _write_arrays(path: Path, arrays: Mapping[str, Array]) -> StoredFile:
    """Write a safetensors file: length of the header, header (JSON), data without gaps."""
    # Wide elements come first, so that every array begins at a multiple of its element size.
    order = sorted(arrays, key=lambda key: -_width(arrays[key].dtype))
    header: dict[str, Any] = {}
    foreign: dict[str, str] = {}
    offset = 0
    for key in order:
        array, end = arrays[key], offset + arrays[key].data.nbytes
        code, shape = _CODES.get(array.dtype), list(array.shape)
        if code is None:
            foreign[key] = f"{array.dtype} {' '.join(map(str, shape))}"
            code, shape = "U8", [array.data.nbytes]
        header[key] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    if foreign:
        header["__metadata__"] = {FOREIGN: msgspec.json.encode(foreign).decode()}
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    hashed = xxhash.xxh3_64()
    with path.open("wb") as file:
        _put(file, hashed, memoryview(len(text).to_bytes(8, "little") + text))
        for key in order:
            _put(file, hashed, arrays[key].data.data)
        size = file.tell()
        file.flush()
        sync_file(file.fileno())
    return StoredFile(size=size, xxh3_64=hashed.hexdigest())


def _take_over(other: Path, draft: Path) -> StoredFile:
    """Store the state of another snapshot in this one, too, without a copy if possible."""
    try:
        os.link(other / STATE, draft / STATE)
    except OSError:
        shutil.copyfile(other / STATE, draft / STATE)
    return _read_head(other)[0].files[STATE]


def _put(file: BinaryIO, hashed: Any, data: memoryview) -> None:
    for begin in range(0, len(data), CHUNK_BYTES):
        chunk = data[begin : begin + CHUNK_BYTES]
        hashed.update(chunk)
        file.write(chunk)


def _put_in_place(draft: Path, folder: Path) -> None:
    sync_folder(draft)
    if folder.exists():
        remove(folder)
        folder.parent.mkdir(exist_ok=True)
    os.rename(draft, folder)
    sync_folder(folder.parent)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # another worker's snapshot exists


def _width(dtype: str) -> int:
    try:
        return dtype_of(dtype).itemsize
    except UnknownNameError:
        return 1


# Reading


def _read_head(folder: Path) -> tuple[_Head, Snapshot]:
    path = folder / HEAD
    try:
        data = read_plain(path, MAX_HEAD_BYTES)
    except OSError as err:
        raise _damaged(path, f"it cannot be read ({err.strerror})") from err
    if b',"checksum":"' not in data or not intact(data):
        raise _damaged(path, "its bytes do not match its checksum")
    try:
        for kind in (_Head, Snapshot):
            jsonable.decoder(kind)  # looked up once, and never by two threads at a time
        head = msgspec.json.decode(data, type=_Head)
        if head.form != FORM:
            raise _damaged(
                path,
                f"its format is {head.form}, and this mothtrap reads {FORM}; use "
                "the version of mothtrap that wrote it",
            )
        return head, msgspec.convert(_with_numbers(head.snapshot), Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise _damaged(path, f"it is not part of a snapshot: {err}") from err


def _with_numbers(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Convert losses that JSON cannot store back to numbers."""
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    steps = snapshot.get("steps")
    holding = [(step, "losses") for step in (steps if isinstance(steps, list) else ())]
    for holder, name in (*holding, (snapshot.get("truth"), "values")):
        if isinstance(holder, dict) and isinstance(holder.get(name), list):
            holder[name] = [
                words.get(loss, loss) if isinstance(loss, str) else loss for loss in holder[name]
            ]
    return snapshot


def _read_arrays(path: Path, expected: StoredFile | None) -> dict[str, Array]:
    if expected is None:
        raise _damaged(path, f"{HEAD} has no checksum for it")
    try:
        size = path.stat().st_size
        if size != expected.size:
            raise _damaged(path, f"it has {size:,} bytes, not the {expected.size:,} written")
        data = read_plain(path, size)
    except OSError as err:
        raise _damaged(path, f"it cannot be read ({err.strerror})") from err
    if xxhash.xxh3_64_hexdigest(data) != expected.xxh3_64:
        raise _damaged(path, "its bytes do not match its checksum")
    try:
        foreign = _foreign(data)
        found = deserialize(data)
        return {name: _array(content, foreign.get(name)) for name, content in found}
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as err:
        raise _damaged(path, f"it is not a safetensors file: {err}") from err


def _foreign(data: bytes) -> dict[str, str]:
    end = 8 + int.from_bytes(data[:8], "little")
    metadata = msgspec.json.decode(data[8:end], type=dict[str, Any]).get("__metadata__", {})
    return msgspec.json.decode(metadata.get(FOREIGN, "{}"), type=dict[str, str])


def _array(content: Mapping[str, Any], foreign: str | None) -> Array:
    dtype, shape = _NAMES[content["dtype"]], tuple(content["shape"])
    data = np.frombuffer(content["data"], np.uint8)
    if foreign is not None:
        dtype, *sizes = foreign.split(" ")
        shape = tuple(int(size) for size in sizes if size)
        if math.prod(shape) * dtype_of(dtype).itemsize != data.nbytes:
            raise ValueError(f"{foreign} does not have {data.nbytes} bytes")
    return Array(dtype=dtype, shape=shape, data=data)


def _damaged(path: Path, what: str) -> DamagedSnapshotError:
    return DamagedSnapshotError(
        f"{path} cannot be used: {what}; this snapshot is lost, the others are fine: "
        "`mothtrap snapshot RUN --list` names them"
    )


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
