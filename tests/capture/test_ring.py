"""Bytes pass through shared memory whole and in order, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.capture.ring import Bytes, ReaderState, Ring

SIZE = 4096


def part(size: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.fixture
def ends() -> Iterator[tuple[Ring, Ring]]:
    """Map the same memory twice."""
    file, size = Ring.create(SIZE)
    assert size >= SIZE
    yield Ring(file, SIZE), Ring(file, SIZE)
    os.close(file)


@given(sizes=st.lists(st.lists(st.integers(0, 900), max_size=3), max_size=30))
def test_what_goes_in_comes_out(sizes: list[list[int]]) -> None:
    file, _ = Ring.create(SIZE)
    writer, reader = Ring(file, SIZE), Ring(file, SIZE)
    os.close(file)
    for seed, lengths in enumerate(sizes):
        parts = [part(length, seed) for length in lengths]
        assert writer.write(parts, last=seed % 2 == 0)
        ((data, last),) = reader.read(SIZE)
        assert data.tobytes() == b"".join(p.tobytes() for p in parts)
        assert last == (seed % 2 == 0)
        assert reader.read(SIZE) == []
        assert writer.used == 0


def test_a_full_ring_takes_nothing_and_loses_nothing(ends: tuple[Ring, Ring]) -> None:
    writer, reader = ends
    written = [part(500, seed) for seed in range(20)]
    fits = [writer.write([p]) for p in written]
    assert fits == sorted(fits, reverse=True)
    assert 0 < sum(fits) < 20
    got = [data.tobytes() for data, _ in reader.read(1 << 20)]
    assert got == [p.tobytes() for p in written[: sum(fits)]]
    assert writer.write([part(SIZE - 16)])
    assert not writer.write([part(0)])


def test_a_read_is_bounded(ends: tuple[Ring, Ring]) -> None:
    writer, reader = ends
    for _ in range(4):
        writer.write([part(100)])
    assert [len(reader.read(150)) for _ in range(3)] == [2, 2, 0]


def test_a_frame_that_is_not_all_there_waits(ends: tuple[Ring, Ring]) -> None:
    writer, reader = ends
    writer.write([part(100)])
    held = writer._data[50]
    writer._data[50] ^= 1  # as if another core did not see this store yet
    assert reader.read(SIZE) == []
    writer._data[50] = held
    assert len(reader.read(SIZE)) == 1


def test_both_sides_know_how_the_other_fares(ends: tuple[Ring, Ring]) -> None:
    writer, reader = ends
    assert (writer.state, writer.reader_pid) == (ReaderState.STARTING, 0)
    reader.begin(77)
    reader.enter(ReaderState.FAILED, "disk \ud800 full" + "!" * 10_000)
    assert (writer.state, writer.reader_pid) == (ReaderState.FAILED, 77)
    assert writer.words.startswith("disk \\ud800 full!!!")
    assert not reader.closing
    writer.finish()
    assert reader.closing


def test_memory_of_a_place_without_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    file, size = Ring.create(SIZE)
    ring = Ring(file, size)
    os.close(file)
    assert ring.write([part(10)])
    assert len(ring.read(SIZE)) == 1
