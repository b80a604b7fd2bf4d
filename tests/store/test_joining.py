"""Many messages of one layout are read as one batch, with the numbers that Arrow reads."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.records import plain, record

from mothtrap.store import joining
from mothtrap.store.joining import MANY, Found, joined, stretches
from mothtrap.store.segments import SegmentWriter
from mothtrap.store.tailing import SegmentReader
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import ReadState, read_records

NUMBERS = pa.schema(
    {
        "record": pa.int64(),
        "tensor": pa.uint32(),
        "small": pa.float32(),
        "summary": pa.list_(pa.float64(), 3),
    }
)


def numbers(step: int, rows: int = 5) -> pa.RecordBatch:
    made = np.arange(rows) + 100 * step
    pairs = (made[:, None] + np.array([0.0, 0.25, np.nan])).tolist()
    return pa.record_batch([made, made, made / 4, pairs], schema=NUMBERS)


def written(path: Path, *batches: pa.RecordBatch) -> Path:
    writer = SegmentWriter(path, batches[0].schema)
    for batch in batches:
        writer.append(batch)
    writer.seal()
    return path


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record whether messages were joined, each time that it was tried."""
    seen: list[bool] = []

    def noted(*arguments: object) -> pa.RecordBatch | None:
        batch = joined(*arguments)  # type: ignore[arg-type]
        seen.append(batch is not None)
        return batch

    monkeypatch.setattr("mothtrap.store.tailing.joined", noted)
    return seen


@pytest.mark.parametrize("chosen", [None, ("record", "summary"), ("small",)])
def test_messages_of_one_layout_become_one_batch(
    tmp_path: Path, results: list[bool], chosen: tuple[str, ...] | None
) -> None:
    path = written(tmp_path / "x.arrow", *(numbers(step) for step in range(MANY)))
    (batch,) = SegmentReader(path, chosen).poll()
    assert results == [True]
    wanted = pa.ipc.open_file(path).read_all().combine_chunks().to_batches()[0]
    assert batch.schema.names == list(chosen or NUMBERS.names)
    for name in batch.schema.names:
        assert repr(batch.column(name).to_pylist()) == repr(wanted.column(name).to_pylist())


WORDS = pa.schema({"record": pa.int64(), "name": pa.string(), "value": pa.float64()})


@pytest.mark.parametrize("last", ["lr", "lx"])
def test_words_are_joined_only_where_they_are_the_same_in_each_message(
    tmp_path: Path, results: list[bool], last: str
) -> None:
    names = [("loss", "lr")] * (MANY - 1) + [("loss", last)]
    batches = [
        pa.record_batch([[step, step], list(name), [0.5, step / 4]], schema=WORDS)
        for step, name in enumerate(names)
    ]
    path = written(tmp_path / "x.arrow", *batches)
    found = SegmentReader(path).poll()
    assert results == [last == "lr"]
    assert [row for batch in found for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]


def test_others_between_them_keep_their_place(tmp_path: Path, results: list[bool]) -> None:
    rows = [5] * MANY + [2, 7, 2] + [6] * MANY + [1]
    batches = [numbers(step, count) for step, count in enumerate(rows)]
    path = written(tmp_path / "x.arrow", *batches)
    found = SegmentReader(path).poll()
    assert [batch.num_rows for batch in found] == [5 * MANY, 11, 6 * MANY, 1]
    assert results == [True, True]
    told = [value for batch in found for value in batch.column("record").to_pylist()]
    assert told == [value for batch in batches for value in batch.column("record").to_pylist()]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None]),
        pa.array([True, False]),
        pa.array([1, None]),
        pa.array([[1], [2]], pa.list_(pa.int64())),
        pa.array([["a"], ["b"]], pa.list_(pa.string(), 1)),
    ],
    ids=lambda column: str(column.type),
)
def test_what_is_neither_numbers_nor_words_is_left_to_arrow(
    tmp_path: Path, results: list[bool], column: pa.Array
) -> None:
    batch = pa.record_batch([column], names=["x"])
    path = written(tmp_path / "x.arrow", *[batch] * MANY)
    told = [value for found in SegmentReader(path).poll() for value in found.column(0).to_pylist()]
    assert told == column.to_pylist() * MANY
    assert results == [False]


def test_messages_of_one_length_and_another_layout_are_left_to_arrow(
    tmp_path: Path, results: list[bool]
) -> None:
    batches = [pa.record_batch([pa.array([step, 1])], names=["x"]) for step in range(2 * MANY)]
    holey = pa.record_batch([pa.array([7, None])], names=["x"])
    writer = SegmentWriter(tmp_path / "x.arrow", batches[0].schema)
    ends = [writer.append(batch) for batch in (*batches[:MANY], holey, *batches[MANY:])]
    assert ends[MANY] - ends[MANY - 1] != ends[1] - ends[0]  # so it stands alone
    found = SegmentReader(tmp_path / "x.arrow").poll()
    told = [value for batch in found for value in batch.column(0).to_pylist()]
    assert told == [v for b in (*batches[:MANY], holey, *batches[MANY:]) for v in b[0].to_pylist()]
    assert results == [True, True]


def test_rows_of_another_number_in_as_many_bytes_are_left_to_arrow(
    tmp_path: Path, results: list[bool]
) -> None:
    counts = [1, 2] * MANY  # of 4 bytes each, padded to 8
    batches = [pa.record_batch([pa.array([9] * n, pa.int32())], names=["x"]) for n in counts]
    path = written(tmp_path / "x.arrow", *batches)
    assert sum(batch.num_rows for batch in SegmentReader(path).poll()) == sum(counts)
    assert results == [False]


def test_a_flipped_bit_among_many_costs_its_own_message(tmp_path: Path) -> None:
    dice = random.Random(5)
    items = [record(step, tensors=2, defined=()) for step in range(2 * MANY)]
    log = WorkerLog(tmp_path)
    for item in items:
        log.append([item])
    log.close()
    path = tmp_path / "stats-00000000.arrow"
    good = path.read_bytes()
    lost = set()
    for _ in range(150):
        bad = bytearray(good)
        bad[dice.randrange(1000, len(good) * 3 // 4)] ^= 1 << dice.randrange(8)
        path.write_bytes(bad)
        state = ReadState(tmp_path)
        got = read_records(tmp_path, state)
        differing = [a.key.step for a, b in zip(got, items, strict=True) if plain(a) != plain(b)]
        assert all(not len(got[step].tensor_T) for step in differing)
        assert len(differing) == 1
        assert state.damage(ended=True)
        lost |= set(differing)
    assert len(lost) > MANY  # otherwise all flips hit the same few


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 0, 8]), st.sampled_from([8, 8, 8, 16]))),
    st.integers(1, 5),
)
def test_stretches_are_all_messages_in_order(parts: list[tuple[int, int]], many: int) -> None:
    found, at = Found([], []), 0
    for gap, size in parts:
        found.starts.append(at + gap)
        found.ends.append(at + gap + size)
        at += gap + size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "MANY", many)
        split = list(stretches(found))
    assert [s for part in split for s in part.starts] == found.starts
    assert [e for part in split for e in part.ends] == found.ends
    for part in split:
        assert part.starts[1:] == part.ends[:-1]
    sizes = [[e - s for s, e in zip(*part, strict=True)] for part in split]
    for before, after in pairwise(split):
        beside = before.ends[-1] == after.starts[0]
        one_length = [len(p.starts) >= many and _one_length(p) for p in (before, after)]
        assert not beside or any(one_length)
    assert all(sizes)


def _one_length(part: Found) -> bool:
    return len({end - start for start, end in zip(*part, strict=True)}) == 1
