"""A disk that refuses writes for a while costs none of the records."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.store.records import plain, record

from mothtrap.store.patient_log import PatientLog
from mothtrap.store.segments import SegmentWriter
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import ReadState, read_records

FULL = OSError(28, "No space left on device")


class Disk:
    """Refuses that many times, then accepts everything."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.refusals = 0
        self._write = os.write
        patch.setattr(os, "write", self._take)

    def _take(self, file: int, data: memoryview) -> int:
        if self.refusals:
            self.refusals -= 1
            raise FULL
        return self._write(file, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


class Patience:
    """A patient log, the time that it waited, and its messages."""

    def __init__(self, folder: Path, out_of_time: Callable[[], bool] = lambda: False) -> None:
        self.pauses_s: list[float] = []
        self.said: list[str] = []
        self._over = out_of_time
        self.log = PatientLog(WorkerLog(folder), self._rest, self.said.append)

    def _rest(self, seconds: float) -> bool:
        self.pauses_s.append(seconds)
        return self._over()


def assert_stored(folder: Path, *steps: int) -> None:
    state = ReadState(folder)
    assert [plain(r) for r in read_records(folder, state)] == [plain(record(s)) for s in steps]
    assert state.damage(ended=True) == ()


def test_what_the_disk_refuses_is_tried_again_until_it_is_taken(tmp_path: Path, disk: Disk) -> None:
    patient = Patience(tmp_path)
    for step, refusals in enumerate((0, 9, 0, 2)):
        disk.refusals = refusals
        patient.log.append([record(step)])
    patient.log.close()
    assert_stored(tmp_path, 0, 1, 2, 3)
    assert patient.pauses_s == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 1.0, 2.0]
    first, then = patient.said  # once, however often it happens
    assert "captured data cannot be written ([Errno 28] No space left on device)" in first
    assert then.endswith("again")


def test_when_there_is_no_time_left_it_is_tried_once_more(tmp_path: Path, disk: Disk) -> None:
    patient = Patience(tmp_path, lambda: True)
    disk.refusals = 1
    patient.log.append([record(0)])
    disk.refusals = 2
    with pytest.raises(OSError, match="No space left"):
        patient.log.append([record(1)])
    patient.log.close()
    assert_stored(tmp_path, 0)


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError, PermissionError])
def test_what_no_waiting_mends_is_raised_at_once(error: type[OSError], tmp_path: Path) -> None:
    patient = Patience(tmp_path)
    patient.log._log.append = Mock(side_effect=error("x"))  # type: ignore[method-assign]
    with pytest.raises(error):
        patient.log.append([record(0)])
    assert (patient.pauses_s, patient.said) == ([], [])


def test_a_refusal_after_the_records_were_written_does_not_double_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = SegmentWriter.seal

    def refused(writer: SegmentWriter) -> None:
        if not writer.closed and writer.path.name.startswith("events"):
            writer._abandon()
            raise FULL
        seal(writer)

    monkeypatch.setattr(SegmentWriter, "seal", refused)
    said: list[str] = []
    log = WorkerLog(tmp_path, roll_bytes=1)
    patient = PatientLog(log, lambda _: pytest.fail("it waits"), said.append)
    for step in range(3):
        patient.append([record(step)])
    assert log.trouble is FULL
    assert len(said) == 1
    assert "not safely to the disk" in said[0]
    assert_stored(tmp_path, 0, 1, 2)


def test_a_disk_that_cannot_keep_what_is_written_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = Patience(tmp_path)
    patient.log.append([record(0)])
    with monkeypatch.context() as patch:
        patch.setattr(WorkerLog, "tend", Mock(side_effect=OSError(5, "Input/output error")))
        patient.log.tend()
        patient.log.tend()
    patient.log.append([record(1)])
    patient.log.close()
    assert_stored(tmp_path, 0, 1)
    assert len(patient.said) == 1
