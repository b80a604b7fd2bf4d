from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.test_segments import SCHEMA, batch

from mothtrap.store import layout, tailing
from mothtrap.store.segments import SegmentWriter
from mothtrap.store.tailing import SegmentReader, SegmentTail


def values(batches: list) -> list[int]:
    return [value for b in batches for value in b.column("a").to_pylist()]


def written(folder: Path, *numbers: int, seq: int = 0, seal: bool = True) -> Path:
    path = folder / f"raw-{seq:08d}.arrow"
    writer = SegmentWriter(path, SCHEMA)
    for number in numbers:
        writer.append(batch(number))
    if seal:
        writer.seal()
    return path


def test_batches_in_the_wrong_place_are_not_believed(tmp_path: Path) -> None:
    path = written(tmp_path, 10, 11, 12, seal=False)
    data = path.read_bytes()
    size = (len(data) - data.index(b"\xff\xff\xff\xff", 16)) // 3
    a, b, c = (data[len(data) - k * size : len(data) - (k - 1) * size] for k in (3, 2, 1))
    path.write_bytes(data[: -3 * size] + a + c + b)
    reader = SegmentReader(path)
    assert values(reader.poll()) == [10, 12]
    reader.close()
    assert "batches 1 to 1 are missing" in reader.damage[0]
    assert "contain no complete batch" in reader.damage[1]


def test_a_batch_of_another_schema_is_not_believed(tmp_path: Path) -> None:
    path = written(tmp_path, 10, 11)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\x01\0\0\0a\0\0\0", b"\x01\0\0\0b\0\0\0"))
    assert path.read_bytes() != data
    reader = SegmentReader(path)
    assert reader.poll() == []
    assert reader.damage


def test_a_segment_of_absurd_length_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, 1)
    monkeypatch.setattr(tailing, "MAX_SEGMENT_BYTES", 100)
    reader = SegmentReader(path)
    assert reader.poll() == []
    assert "expected at most 100" in reader.damage[0]


def test_a_torn_segment_before_another_is_damage(tmp_path: Path) -> None:
    path = written(tmp_path, 1, 2, seal=False)
    path.write_bytes(path.read_bytes()[:-3])
    written(tmp_path, 3, seq=1)
    tail = SegmentTail(tmp_path, "raw")
    assert values(tail.poll()) == [1]
    assert values(tail.poll()) == [3]
    assert tail.poll() == []
    assert len(tail.damage) == 1


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    written(tmp_path, 1)
    written(tmp_path, 3, seq=2)
    tail = SegmentTail(tmp_path, "raw")
    assert values(tail.poll() + tail.poll()) == [1, 3]
    assert "raw-00000001.arrow: the segment is missing" in tail.damage[0]
    (tmp_path / "raw-00000000.arrow").unlink()
    tail = SegmentTail(tmp_path, "raw")
    assert values(tail.poll()) == [3]
    assert "raw-00000000.arrow: the segment is missing" in tail.damage[0]


def test_a_tail_waits_for_a_torn_batch(tmp_path: Path) -> None:
    path = written(tmp_path, 1, 2, seal=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    tail = SegmentTail(tmp_path, "raw")
    assert values(tail.poll()) == [1]
    assert tail.pending
    path.write_bytes(whole)
    assert values(tail.poll()) == [2]
    assert tail.pending == tail.damage == ()


def test_batches_are_parsed_together_also_those_that_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(*_: object) -> None:
        raise AssertionError("batches were parsed one by one")

    monkeypatch.setattr(SegmentReader, "_parse_each", one_by_one)
    path = tmp_path / "raw-00000000.arrow"
    writer = SegmentWriter(path, SCHEMA)
    reader = SegmentReader(path)
    for start in range(0, 9, 3):
        for number in range(start, start + 3):
            writer.append(batch(number))
        found = reader.poll()
        assert len(found) == 1
        assert values(found) == [start, start + 1, start + 2]
    writer.seal()
    assert reader.poll() == []
    assert (reader.done, reader.damage) == (True, [])


def test_a_folder_of_many_segments_is_listed_a_few_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seq in range(50):
        written(tmp_path, seq, seq=seq)
    listed = []

    def counted(folder: Path, kind: str) -> list[int]:
        listed.append(folder)
        return layout.segments(folder, kind)

    monkeypatch.setattr(tailing, "segments", counted)
    tail = SegmentTail(tmp_path, "raw")
    read = [value for _ in range(50) for value in values(tail.poll())]
    assert read == list(range(50))
    assert len(listed) < 5
    written(tmp_path, 50, seq=50)
    assert values(tail.poll()) == [50]


@pytest.mark.parametrize("at_once", [1, 700, 3000], ids=["less than a batch", "one", "some"])
@pytest.mark.parametrize("damaged", [-1, 0, 4, 9], ids=["sound", "schema", "middle", "end"])
def test_a_segment_is_the_same_a_few_bytes_at_a_time(
    tmp_path: Path, at_once: int, damaged: int
) -> None:
    path = written(tmp_path, *range(10))
    data = bytearray(path.read_bytes())
    if damaged >= 0:
        data[len(data) * damaged // 10 + 30] ^= 0xFF
        path.write_bytes(data)
    whole, pieces = SegmentReader(path), SegmentReader(path, at_once=at_once)
    expected, found = whole.poll(), []
    while batches := pieces.poll():
        found += batches
    assert values(found) == values(expected)
    assert (pieces.done, pieces.damage) == (whole.done, whole.damage)
    assert pieces.bytes_read == len(data)
    assert pieces.poll() == []
