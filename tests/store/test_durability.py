"""The synced bytes alone suffice to read the run after a loss of power."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.store.records import plain, record
from tests.store.test_finding_log import finding
from tests.store.test_layout import info
from tests.store.test_raw_log import block

from mothtrap.core.runs import RunEnd
from mothtrap.store import durability, layout
from mothtrap.store.durability import Durability, Syncer
from mothtrap.store.finding_log import FindingLog, FindingReader
from mothtrap.store.raw_reading import RawIndex, read_bytes
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import EventReader, read_records


class Disk:
    """Records what was synced; `lose_power` discards everything else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[Path, int] = {}
        self.names: dict[Path, set[str]] = {}
        monkeypatch.setattr(os, "fdatasync", self._file)
        monkeypatch.setattr(os, "fsync", self._folder)

    @property
    def syncs(self) -> int:
        return len(self.sizes) + len(self.names)

    def _file(self, file: int) -> None:
        self.sizes[self._path(file)] = os.fstat(file).st_size

    def _folder(self, file: int) -> None:
        self.names[self._path(file)] = set(os.listdir(self._path(file)))

    @staticmethod
    def _path(file: int) -> Path:
        return Path(os.readlink(f"/proc/self/fd/{file}"))

    def lose_power(self, folder: Path) -> None:
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_file():
                if path.name in self.names.get(path.parent, ()):
                    os.truncate(path, self.sizes.get(path, 0))
                else:
                    path.unlink()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "SYNC_EVERY_S", 0.0)


@pytest.mark.parametrize("sealed", [True, False])
def test_after_a_loss_of_power_synced_steps_are_whole(
    sealed: bool, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_wait(monkeypatch)
    folder = tmp_path / "w0"
    folder.mkdir()
    log = WorkerLog(folder, durability="power", roll_bytes=20_000)
    written = [record(step, raw=(block(np.arange(9.0) + step),)) for step in range(30)]
    for item in written:
        log.append([item])
    if sealed:
        log.close()
    assert len(list(folder.glob("raw-*"))) > 1
    assert "w0" in disk.names[tmp_path]
    disk.lose_power(folder)
    assert [plain(r) for r in read_records(folder)] == [plain(r) for r in written]
    index = RawIndex(folder)
    rows = [row for events in EventReader(folder).poll() for row in index.take(events)]
    values = [np.frombuffer(read_bytes(folder, row))[0] for row in rows]
    assert values == list(range(30))


def test_without_the_setting_a_log_never_waits_for_the_disk(disk: Disk, tmp_path: Path) -> None:
    log = WorkerLog(tmp_path)
    log.append([record(0)])
    log.close()
    assert disk.syncs == 0
    disk.lose_power(tmp_path)  # the counterpart of the test above: this disk does lose data
    assert read_records(tmp_path) == []


@pytest.mark.parametrize(("mode", "expected"), [("power", [0.0, 1.0, 2.5]), ("crash", [])])
def test_the_disk_is_asked_once_a_second(mode: Durability, expected: list[float]) -> None:
    now_s = 0.0
    synced: list[float] = []

    class Log:
        def sync(self) -> None:
            synced.append(now_s)

    syncer = Syncer([Log()], mode, clock=lambda: now_s)
    for moment_s in (0.0, 0.4, 0.9, 1.0, 1.9, 2.5, 2.6):
        now_s = moment_s
        syncer.sync_if_due()
    assert synced == expected


def test_what_came_last_is_synced_while_nothing_comes(disk: Disk, tmp_path: Path) -> None:
    log = WorkerLog(tmp_path, durability="power")
    log.append([record(0)])
    log.append([record(1)])  # within a second
    before = dict(disk.sizes)
    log._syncer._synced_s -= 2 * durability.SYNC_EVERY_S
    log.tend()
    assert all(disk.sizes[path] > before[path] for path in before)
    after = dict(disk.sizes)
    disk.sizes.clear()
    log._syncer._synced_s -= 2 * durability.SYNC_EVERY_S
    log.tend()
    assert disk.sizes == {}, "what the disk has is not given to it again"
    disk.sizes = after
    disk.lose_power(tmp_path)
    assert len(read_records(tmp_path)) == 2


def test_findings_survive_as_soon_as_they_are_written(disk: Disk, tmp_path: Path) -> None:
    log = FindingLog(tmp_path / "m0", durability="power")
    log.append([finding()])
    disk.lose_power(tmp_path)
    reader = FindingReader(tmp_path / "m0")
    reader.poll()
    assert reader.findings == [finding()]


def test_descriptions_of_a_run_survive_whole(disk: Disk, tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info(config={}))
    assert "x" in disk.names[tmp_path]
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))
    assert {"run.json", "end.json"} <= disk.names[attempt]
    (size,) = {disk.sizes[p] for p in disk.sizes if p.name.startswith(".end.json")}
    assert size == (attempt / "end.json").stat().st_size


def test_a_file_system_that_cannot_sync_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(number: int) -> Callable[[int], None]:
        def sync(file: int) -> None:
            raise OSError(number, os.strerror(number))

        return sync

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, refusing(errno.EINVAL))
    WorkerLog(tmp_path, durability="power").append([record(0)])
    monkeypatch.setattr(os, "fdatasync", refusing(errno.EIO))
    log = WorkerLog(tmp_path, durability="power")
    log.append([record(1)])  # written it is
    assert log.trouble is not None
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        log.tend()
