from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from mothtrap.store.segments import SegmentLog, SegmentWriter
from mothtrap.store.tailing import SegmentTail

SCHEMA = pa.schema([pa.field("a", pa.int64(), nullable=False)])


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def test_a_sealed_segment_is_an_arrow_file(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "x.arrow", SCHEMA)
    writer.append(batch(1, 2))
    writer.append(batch(3))
    writer.seal()
    writer.seal()
    with pa.OSFile(str(tmp_path / "x.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().column("a").to_pylist() == [1, 2, 3]


def test_a_segment_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        SegmentWriter(tmp_path / "x.arrow", SCHEMA)
    assert (tmp_path / "x.arrow").read_bytes() == b"mine"


def test_a_sealed_segment_takes_no_more(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "x.arrow", SCHEMA)
    writer.append(batch(1))
    writer.seal()
    with pytest.raises(ValueError, match="closed"):
        writer.append(batch(2))


def test_a_log_without_batches_leaves_no_file(tmp_path: Path) -> None:
    SegmentLog(tmp_path, "stats").close()
    SegmentWriter(tmp_path / "x.arrow", SCHEMA).seal()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_that_took_nothing_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    log = SegmentLog(tmp_path, "stats")
    for number in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                log.append(batch(0))
        log.append(batch(number))
        log.close()
    tail = SegmentTail(tmp_path, "stats")
    assert [tail.poll()[0].column("a").to_pylist() for _ in range(2)] == [[1], [2]]
    assert tail.damage == ()
