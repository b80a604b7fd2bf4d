"""A record that is sent to another process arrives unchanged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.records import plain, record, records
from tests.store.test_raw_log import block

from mothtrap.core.facts.captures import Blind
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.store.wire import decode, encode, size_of
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import read_records


def through(item: StepRecord) -> StepRecord:
    parts = encode(item)
    message = np.concatenate(parts)
    assert len(message) == size_of(parts)
    return decode(message)


@given(item=records())
def test_every_record_comes_back_equal(item: StepRecord) -> None:
    assert plain(through(item)) == plain(item)


@given(sizes=st.lists(st.integers(0, 9), max_size=3))
def test_whole_tensors_come_back_equal(sizes: list[int]) -> None:
    given_blocks = tuple(block(*(np.arange(n, dtype=np.int8) for n in range(k))) for k in sizes)
    found = through(record(0, raw=given_blocks)).raw
    assert len(found) == len(given_blocks)
    for one, other in zip(found, given_blocks, strict=True):
        assert (one.dtypes, one.shapes) == (other.dtypes, other.shapes)
        for name in ("tensor_R", "offset_R", "bytes_N"):
            assert getattr(one, name).dtype == getattr(other, name).dtype
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_names_that_unicode_cannot_hold_are_stored_as_the_thread_stores_them(
    tmp_path: Path,
) -> None:
    item = record(
        0,
        defined=((0, TensorInfo(kind="weight", name="a\ud800/../\0\n🦋")),),
        scalars=(Scalar("lo\udfffss", "", 1.0),),
        observations=(Blind(step=0, what="\ud800", reason='"};'),),
    )
    stored = []
    for name, one in (("direct", item), ("handed", through(item))):
        (tmp_path / name).mkdir()
        WorkerLog(tmp_path / name).append([one])
        stored += [plain(found) for found in read_records(tmp_path / name)]
    assert stored[0] == stored[1]


def test_numbers_of_numpy_are_numbers() -> None:
    (scalar,) = through(record(0, scalars=(Scalar("loss", "", np.float64("nan")),))).scalars
    assert scalar.value != scalar.value


def test_bytes_that_are_no_record_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(np.arange(64, dtype=np.uint8))
