from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.store.records import WIDTH, plain, record

from mothtrap.core.records import StepRecord
from mothtrap.store import compacting, layout
from mothtrap.store.compacting import compact, compactable
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import ReadState, read_records

ROLL_BYTES = 100_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact small segments in small batches, so that tests have several of both."""
    monkeypatch.setattr(compacting, "LEAST_BYTES", 1 << 12)
    monkeypatch.setattr(compacting, "BATCH_ROWS", 50)


def items(begin: int, end: int, width: int = WIDTH) -> list[StepRecord]:
    """Return records as a training writes them: few columns, and NaN with different bits."""
    found = []
    for step in range(begin, end):
        rows_TF = np.full((7, width), math.nan)
        rows_TF[:, 0], rows_TF[:, 1:3] = 12, 0
        rows_TF[:, width - 4] = np.arange(7) + 1 / (step + 1)
        rows_TF[step % 7, 3] = np.array(0x7FF8000000000001, np.uint64).view(np.float64)
        found.append(record(step, summary_TF=rows_TF, tensor_T=np.arange(7, dtype=np.uint32)))
    return found


def attempt_of(tmp_path: Path) -> tuple[Path, Path]:
    attempt = tmp_path / "x" / "1"
    folder = layout.worker_folder(attempt, 0)
    folder.mkdir(parents=True)
    return attempt, folder


def write(folder: Path, records: list[StepRecord]) -> None:
    log = WorkerLog(folder, roll_bytes=ROLL_BYTES)
    for item in records:
        log.append([item])
    log.close()


def test_rows_stay_as_they_are_to_the_bit_and_take_less_room(tmp_path: Path) -> None:
    attempt, folder = attempt_of(tmp_path)
    write(folder, items(0, 300))
    before = {path: path.stat() for path in sorted(folder.glob("*.arrow"))}
    due = compactable(attempt)
    assert {path.name.partition("-")[0] for path in due} == {"stats", "scalars", "events"}
    assert sum(path.name.startswith("stats") for path in due) > 1
    assert all(compact(path) for path in due)
    assert [plain(item) for item in read_records(folder)] == [plain(i) for i in items(0, 300)]
    for path in due:
        assert path.stat().st_size < before[path].st_size / 4
        assert path.stat().st_mtime == before[path].st_mtime
        with pa.OSFile(str(path)) as file:  # every reader of Arrow can open it
            assert pa.ipc.open_file(file).read_all().num_rows > 0
    assert compactable(attempt) == []
    assert sorted(folder.iterdir()) == sorted(before)


@pytest.mark.parametrize("read", [0, 1, 50, 200, 299])
def test_a_reader_in_the_midst_of_it_loses_and_repeats_nothing(tmp_path: Path, read: int) -> None:
    attempt, folder = attempt_of(tmp_path)
    log = WorkerLog(folder, roll_bytes=1 << 20)
    records = items(0, 300)
    state = ReadState(folder)
    for item in records[:read]:
        log.append([item])
    found = list(state.poll())
    for item in records[read:]:
        log.append([item])
    assert compactable(attempt) == []  # none is sealed
    log.close()
    assert all(compact(path) for path in compactable(attempt))
    found += state.poll()
    assert [plain(item) for item in found] == [plain(item) for item in records]
    assert state.damage(ended=True) == ()
    write(folder, items(300, 310))
    assert [item.key.step for item in state.poll()] == list(range(300, 310))


def test_what_is_damaged_open_or_of_another_version_stays(tmp_path: Path) -> None:
    attempt, folder = attempt_of(tmp_path)
    write(folder, items(0, 100))
    (path,) = folder.glob("scalars-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert path in compactable(attempt)
    assert not compact(path)
    assert path.read_bytes() == data
    other = layout.worker_folder(attempt, 1)
    other.mkdir()
    write(other, items(0, 100, width=WIDTH + 2))
    path = min(other.glob("stats-*"))
    data = bytearray(path.read_bytes())
    assert not compact(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("at", ["append", "seal", "replace"])
def test_a_full_disk_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    _, folder = attempt_of(tmp_path)
    write(folder, items(0, 100))
    (path,) = folder.glob("events-*")
    data = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner = os if at == "replace" else compacting.SegmentWriter
    monkeypatch.setattr(owner, at, full)
    assert not compact(path)
    assert path.read_bytes() == data
    assert not list(folder.glob(".*"))


def test_kill_9_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    """A process that compacts one segment after another is killed after some of them."""
    records = [plain(item) for item in items(0, 2000)]
    code = """if True:
        import sys
        from pathlib import Path
        from mothtrap.store import compacting
        compacting.LEAST_BYTES = 1 << 12
        for path in compacting.compactable(Path(sys.argv[1])):
            print("next", flush=True)
            compacting.compact(path)
    """
    attempt, folder = attempt_of(tmp_path)
    write(folder, items(0, 2000))
    segments = len(compactable(attempt))
    for after in (1, 2, 4):
        job = subprocess.Popen(
            [sys.executable, "-c", code, str(attempt)], stdout=subprocess.PIPE, text=True
        )
        assert job.stdout is not None
        for _ in range(after):
            job.stdout.readline()
        job.kill()
        job.wait()
        job.stdout.close()
        assert [plain(item) for item in read_records(folder)] == records
    assert 0 < len(compactable(attempt)) <= segments
    assert all(compact(path) for path in compactable(attempt))
    assert [plain(item) for item in read_records(folder)] == records
