from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.records import record

from mothtrap.session import compactor
from mothtrap.session.compactor import Compactor
from mothtrap.store import compacting, layout
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import read_records


def test_segments_that_a_job_sealed_are_compacted_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "END_S", 1000.0)
    monkeypatch.setattr(compacting, "LEAST_BYTES", 1 << 12)
    attempt = tmp_path / "x" / "1"
    folder = layout.worker_folder(attempt, 0)
    folder.mkdir(parents=True)
    log = WorkerLog(folder)
    for step in range(100):
        log.append([record(step)])
    said: list[str] = []
    compacting_beside = Compactor(attempt.parent, said.append)
    log.close()
    assert compacting.compactable(attempt)
    compacting_beside.finish()
    assert said == []
    assert compacting.compactable(attempt) == []
    assert [item.key.step for item in read_records(folder)] == list(range(100))


def test_a_process_that_ends_without_finish_does_not_hang(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from mothtrap.session.compactor import Compactor; "
        "Compactor(Path('x'), print)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0
