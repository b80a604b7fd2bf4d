"""Direct writes leave the file with the same content as writes through the cache."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mothtrap.store import long_reads, long_writes
from mothtrap.store.long_writes import BLOCK, TRY_AGAIN, LongWrites, file_system
from mothtrap.store.pages import HUGE_BYTES
from mothtrap.store.sealing import Bytes

SIZES = st.one_of(st.integers(0, 3 * BLOCK), st.sampled_from([BLOCK, 2 * BLOCK, 7 * BLOCK]))


class Clock:
    """Returns the time that it was set to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Log:
    """A file to which parts are appended, and how each was written."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.path, self.through = folder / "file", 0
        self.path.touch()
        self.clock = clock or Clock()
        self.writes = LongWrites(folder, self.clock)
        self.expected = b""
        self.through_s = 0.0

    def append(self, parts: Sequence[bytes]) -> None:
        self.writes.append(self.path, len(self.expected), parts, self._write)
        self.expected += b"".join(parts)

    def _write(self, parts: Sequence[Bytes]) -> None:
        with self.path.open("ab", buffering=0) as file:
            for part in parts:
                self.through += file.write(part)
        self.clock.now_s += self.through_s


@pytest.fixture
def direct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on a disk that accepts direct writes of any size."""
    try:
        os.close(os.open(tmp_path / "probe", os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except (AttributeError, OSError):
        pytest.skip("this file system knows no way past the cache")
    for module in (long_writes, long_reads):
        monkeypatch.setattr(module, "LONG_BYTES", 1)
        monkeypatch.setattr(module, "takes_past_cache", lambda _: True)
    return tmp_path


@given(appends=st.lists(st.lists(SIZES, min_size=1, max_size=4), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_parts_are_in_the_file_in_their_order(direct: Path, appends: list[list[int]]) -> None:
    log = Log(direct)
    log.path.write_bytes(b"")
    draw = np.random.default_rng(0)
    for sizes in appends:
        log.writes._s_per_byte.clear()  # each first one is written directly
        log.append([draw.bytes(size) for size in sizes])
        assert log.path.read_bytes() == log.expected


def test_most_of_a_long_append_passes_the_cache(direct: Path) -> None:
    log = Log(direct)
    log.append([b"abc"])
    log.writes._s_per_byte.clear()
    before = log.through
    log.append([bytes(range(256)) * 1000] * 20)
    assert log.path.read_bytes() == log.expected
    assert log.through - before < 2 * BLOCK


def test_the_faster_way_is_taken_and_the_other_tried_now_and_then(
    direct: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, pwrite, past_s = Log(direct), os.pwrite, 0.1

    def write(file: int, data: bytes, at: int) -> int:
        log.clock.now_s += past_s
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "pwrite", write)
    log.through_s = 1.0
    passed = []
    for _ in range(2 * TRY_AGAIN + 4):
        before = log.through
        log.append([bytes(BLOCK)])
        passed.append(log.through == before)
    assert passed[:3] == [True, False, True]
    assert passed.count(False) == 3
    past_s = 50.0  # the disk has become slow
    log.append([bytes(BLOCK)])
    before = log.through
    log.append([bytes(BLOCK)])
    assert log.through == before + BLOCK


def test_a_file_system_that_takes_none_in_this_way_loses_nothing(
    direct: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(direct)
    asked = []

    def refuse(*about: object) -> int:
        asked.append(about)
        raise OSError(errno.EINVAL, "not aligned")

    monkeypatch.setattr(os, "pwrite", refuse)
    for number in range(3):
        log.append([bytes([number]) * (3 * BLOCK + 5), b"end"])
    assert log.path.read_bytes() == log.expected
    assert len(asked) == 1


def test_a_full_disk_is_told(direct: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="no space left"):
        Log(direct).append([bytes(BLOCK)])


def test_an_unknown_file_system_is_written_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert file_system(Path("/proc")) == "proc"
    monkeypatch.setattr(long_writes, "file_system", lambda _: "nfs4")
    long_writes.takes_past_cache.cache_clear()
    log = Log(tmp_path)
    log.append([bytes(long_writes.LONG_BYTES)])
    assert log.through == long_writes.LONG_BYTES
    long_writes.takes_past_cache.cache_clear()


@given(offset=st.integers(0, 5 * BLOCK), size=st.integers(0, 6 * BLOCK), pieces=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
def test_any_stretch_is_read_as_it_is_in_the_file(
    direct: Path, offset: int, size: int, pieces: bool
) -> None:
    path = direct / "read"
    whole = np.random.default_rng(1).bytes(7 * BLOCK + 123)
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_reads, "PIECE_BYTES", BLOCK if pieces else 1 << 21)
        patch.setattr(long_reads, "_is_cached", lambda *_: False)
        assert bytes(long_reads.read_at(path, offset, size)) == whole[offset : offset + size]


def test_what_is_in_the_cache_is_known(direct: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = direct / "read"
    path.write_bytes(bytes(4 * BLOCK))
    file = os.open(path, os.O_RDONLY)
    assert long_reads._is_cached(file, BLOCK)
    # the responses of a disk that has to read first, and of a file system that does not report it:
    # which of the two a real one gives after `fadvise` differs from machine to machine
    for error, cached in ((errno.EAGAIN, False), (errno.EOPNOTSUPP, True)):

        def refuse(*_: object, error: int = error) -> int:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(os, "preadv", refuse)
        assert long_reads._is_cached(file, BLOCK) == cached
    os.close(file)


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_what_a_fork_does_to_what_was_read_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "read"
    path.write_bytes(bytes(long_reads.LONG_BYTES))
    read = long_reads.read_at(path, 0, long_reads.LONG_BYTES)
    child = os.fork()
    if not child:
        read[0] = 1
        os._exit(read[0])
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert read[0] == 0


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EACCES, errno.EINVAL])
def test_a_file_that_cannot_be_opened_again_is_written_as_it_is_open(
    direct: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    log, opened = Log(direct), os.open

    def refuse(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(error, os.strerror(error))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    for size in (5, 3 * BLOCK, 7):
        log.append([bytes([size % 251]) * size, b"end"])
    assert log.path.read_bytes() == log.expected


def test_long_reads_begin_at_a_huge_page(tmp_path: Path) -> None:
    path = tmp_path / "read"
    path.write_bytes(bytes(3 << 20))
    kept = [np.frombuffer(long_reads.read_at(path, BLOCK, 1 << 21), np.uint8) for _ in range(3)]
    assert [read.ctypes.data % HUGE_BYTES for read in kept] == [0, 0, 0]
    assert all(read.flags.writeable for read in kept)
