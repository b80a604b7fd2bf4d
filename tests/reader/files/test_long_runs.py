"""A run of many losses is read a few megabytes at a time, without an object for each loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reader.runs import info

from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import event_columns, layout, tailing
from mothtrap.store.event_columns import EventColumns
from mothtrap.store.pages import Data
from mothtrap.store.tailing import SegmentReader
from mothtrap.store.worker_log import WorkerLog

STEPS, BATCH = 40_000, 5_000
AT_ONCE = 1_000_000


def record(step: int) -> StepRecord:
    """Return the record of a step of which only the loss is kept."""
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=1e9 + step / 7,
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        scalars=(Scalar("loss", "", 1.0 / (step + 1)),),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    attempt = layout.create_run(tmp_path_factory.mktemp("long") / "run", info())
    _, folder = layout.claim_worker(attempt)
    log = WorkerLog(folder)
    for begin in range(0, STEPS, BATCH):
        log.append([record(step) for step in range(begin, begin + BATCH)])
    log.close()
    return folder


def test_every_step_time_and_loss_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_columns, "READ_BYTES", AT_ONCE)
    view = WorkerView(folder)
    view.refresh()
    assert view.steps == STEPS
    np.testing.assert_array_equal(view.commits.steps, np.arange(STEPS))
    np.testing.assert_array_equal(view.commits.wall_s, 1e9 + np.arange(STEPS) / 7)
    ((_, loss),) = view.scalars().items()
    np.testing.assert_array_equal(loss.values.view(), 1.0 / np.arange(1, STEPS + 1))
    assert view.damage(ended=True) == ()


def test_little_is_in_memory_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of a poll, all bytes, and the texts that became an object are counted."""
    reads: list[int] = []
    decoded: list[bytes] = []
    read, decode = SegmentReader._read, EventColumns._decode

    def counted(self: SegmentReader, at_once: int) -> Data:
        data = read(self, at_once)
        reads.append(len(data))
        return data

    def counted_decode(self: EventColumns, text: bytes, decoder: Any) -> Any:
        decoded.append(text)
        return decode(self, text, decoder)

    monkeypatch.setattr(event_columns, "READ_BYTES", AT_ONCE)
    monkeypatch.setattr(SegmentReader, "_read", counted)
    monkeypatch.setattr(EventColumns, "_decode", counted_decode)
    WorkerView(folder).refresh()
    size = sum(path.stat().st_size for path in folder.glob("events-*"))
    assert size > 4 * AT_ONCE
    assert max(reads) <= AT_ONCE
    assert sum(reads) <= 2 * size  # a batch that does not fit is read again
    assert len(decoded) <= STEPS // 500
    assert tailing.READ_BYTES < tailing.MAX_SEGMENT_BYTES / 64
