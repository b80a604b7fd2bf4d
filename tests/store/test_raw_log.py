from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.store.records import record

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.records import RawBlock
from mothtrap.statistics.dtypes import NATIVE, dtype_of, name_of
from mothtrap.store import long_writes
from mothtrap.store.raw_reading import RawIndex, RawRow, fetch_ahead, read_bytes
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import EventReader

Array = npt.NDArray[np.generic]


def block(*values: Array) -> RawBlock:
    parts = [np.ascontiguousarray(v).reshape(-1).view(np.uint8) for v in values]
    return RawBlock(
        tensor_R=np.arange(len(values), dtype=np.uint32),
        dtypes=tuple(name_of(v.dtype) for v in values),
        shapes=tuple(v.shape for v in values),
        offset_R=np.cumsum([0, *(len(p) for p in parts)]).astype(np.int64),
        bytes_N=np.concatenate([*parts, np.empty(0, np.uint8)]),
    )


def read(folder: Path, row: RawRow) -> Array:
    return np.frombuffer(read_bytes(folder, row), dtype_of(row.dtype)).reshape(row.shape)


def rows(folder: Path) -> list[RawRow]:
    index = RawIndex(folder)
    found = [row for events in EventReader(folder).poll() for row in index.take(events)]
    assert index.damage(ended=True) == ()
    return found


def same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(
    steps=st.lists(
        st.lists(
            st.sampled_from([*NATIVE, "bfloat16", "float8_e4m3fn"]).flatmap(
                lambda name: arrays(np.uint8, array_shapes(max_dims=1, max_side=40)).map(
                    lambda a: (
                        np.resize(a, a.size // dtype_of(name).itemsize * 16).view(dtype_of(name))
                        if name != "bool"
                        else a > 100
                    )
                )
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_tensors_come_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Array]]
) -> None:
    folder = tmp_path_factory.mktemp("w")
    log = WorkerLog(folder, roll_bytes=2000)
    for step, values in enumerate(steps):
        log.append([record(step, raw=(block(*values),) if values else ())])
    found = rows(folder)  # unsealed
    log.close()
    assert found == rows(folder)
    wanted = [value for values in steps for value in values]
    assert len(found) == len(wanted)
    assert all(same(read(folder, row), value) for row, value in zip(found, wanted, strict=True))


def test_large_tensors_are_written_as_they_lie(tmp_path: Path) -> None:
    values = [np.arange(100_000, dtype=np.float32), np.arange(7, dtype=np.int8)]
    log = WorkerLog(tmp_path)
    log.append([record(0, raw=(block(*values), block(values[0]))), record(1, raw=(block(),))])
    log.close()
    assert [read(tmp_path, row).size for row in rows(tmp_path)] == [100_000, 7, 100_000]
    with pa.OSFile(str(tmp_path / "raw-00000000.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.column("data")[1].as_py() == values[1].tobytes()


def test_empty_and_single_tensors(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path)
    values = [np.zeros((0, 3), np.float32), np.array(7.5, np.float64)]
    log.append([record(0, raw=(block(*values), block(values[0])))])
    shapes = [read(tmp_path, row).shape for row in rows(tmp_path)]
    assert shapes == [(0, 3), (), (0, 3)]


def test_short_tensors_are_fetched_ahead_from_every_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WorkerLog(tmp_path, roll_bytes=2000)
    values = [np.arange(90.0), np.zeros(0), np.zeros(long_writes.LONG_BYTES, np.uint8)]
    for step in range(4):
        log.append([record(step, raw=(block(*values),))])
    log.close()
    found = rows(tmp_path)
    assert len({row.segment for row in found}) == 4
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *place: asked.append(place))
    (tmp_path / "raw-00000002.arrow").unlink()
    fetch_ahead((tmp_path, row) for row in found)
    there = [row for row in found if row.tensor == 0 and row.segment != 2]
    assert asked == [(row.offset, 720, os.POSIX_FADV_WILLNEED) for row in there]


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "swap"])
def test_damage_is_named_and_costs_that_tensor_alone(tmp_path: Path, damage: str) -> None:
    log = WorkerLog(tmp_path)
    log.append([record(0, raw=(block(np.arange(4.0), np.arange(4.0) + 1),))])
    log.close()
    first, second = rows(tmp_path)
    path = tmp_path / "raw-00000000.arrow"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[second.offset + 3] ^= 16
    elif damage == "swap":
        data[second.offset : second.offset + 32] = data[first.offset : first.offset + 32]
    else:
        del data[second.offset + 8 :]
    path.write_bytes(data)
    if damage == "gone":
        path.unlink()
    with pytest.raises(DamagedDataError, match=r"tensor 1 of step 0 in .*raw-00000000"):
        read(tmp_path, second)
    if damage != "gone":
        assert read(tmp_path, first).tolist() == [0, 1, 2, 3]


def test_tensors_of_a_step_that_was_not_committed_do_not_exist(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path)
    log.append([record(0, raw=(block(np.arange(3)),))])
    log.close()
    (tmp_path / "events-00000000.arrow").unlink()
    assert rows(tmp_path) == []
