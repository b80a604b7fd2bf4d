"""A run that reaches its size limit stores less, and reports it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tests.store.records import WIDTH, record

from mothtrap.core.facts.captures import Dropped
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import RawBlock, StepRecord
from mothtrap.statistics.summary import COLUMN
from mothtrap.store.retention import measure
from mothtrap.store.size_limit import RAW_SHARE, SizeLimit, share_bytes
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import read_records

RAW_BYTES = 10_000


def step(number: int, *, nan: bool = False, raw: bool = True, end: bool = False) -> StepRecord:
    """Return a step with 100 rows of statistics, and one tensor kept whole."""
    rows = np.zeros((100, WIDTH))
    rows[7, COLUMN["nan"]] = float(nan)
    block = RawBlock(
        tensor_R=np.array([3], np.uint32),
        dtypes=("uint8",),
        shapes=((RAW_BYTES,),),
        offset_R=np.array([0, RAW_BYTES], np.int64),
        bytes_N=np.zeros(RAW_BYTES, np.uint8),
    )
    ended = WorkerEnded(step=number, steps=number, own_s=0.0, wall_s=1.0)
    return record(
        number,
        tensor_T=np.arange(100, dtype=np.uint32),
        summary_TF=rows,
        raw=(block,) if raw else (),
        observations=(ended,) if end else (),
    )


def told(records: Sequence[StepRecord], what: str) -> list[int]:
    return [
        o.count
        for r in records
        for o in r.observations
        if isinstance(o, Dropped) and o.what == what
    ]


def test_without_a_limit_records_pass_untouched() -> None:
    records = [step(0)]
    assert SizeLimit(None).admit(records, 10**12) is records


def test_whole_tensors_stop_first_then_statistics_but_never_numbers() -> None:
    limit = 30 * RAW_BYTES
    admitted = SizeLimit(limit).admit([step(i) for i in range(60)], 0)
    whole = [i for i, r in enumerate(admitted) if r.raw]
    rows = [i for i, r in enumerate(admitted) if len(r.tensor_T)]
    assert whole == list(range(len(whole)))
    assert rows == list(range(len(rows)))
    assert 0 < len(whole) < len(rows) < 60
    assert len(whole) * RAW_BYTES <= RAW_SHARE * limit
    assert all(r.scalars == s.scalars for r, s in zip(admitted, map(step, range(60)), strict=True))


def test_what_is_left_out_is_told_at_once_then_seldom_and_in_all_at_the_end() -> None:
    steps = [*(step(i) for i in range(99)), step(99, raw=False, end=True)]
    admitted = SizeLimit(2 * RAW_BYTES).admit(steps, 0)
    first = next(i for i, r in enumerate(admitted) if not r.raw)
    assert told(admitted[: first + 1], "tensors kept whole") == [1]
    counts = told(admitted, "tensors kept whole")
    assert sum(counts) == sum(not r.raw for r in admitted) - 1
    assert len(counts) <= 2 + math.log2(100)
    lost = sum(100 - len(r.tensor_T) for r in admitted)
    assert sum(told(admitted, "statistics rows")) == lost > 0


def test_rows_with_nan_are_always_stored() -> None:
    [admitted] = SizeLimit(0.0).admit([step(0, nan=True)], 0)
    assert admitted.tensor_T.tolist() == [7]


def test_a_worker_writes_less_than_its_limit(tmp_path: Path) -> None:
    limit = 40 * RAW_BYTES
    free, bound = tmp_path / "free", tmp_path / "bound"
    for folder, limit_bytes in ((free, None), (bound, limit)):
        folder.mkdir()
        log = WorkerLog(folder, limit_bytes=limit_bytes)
        for number in range(80):
            log.append([step(number)])
        log.append([step(80, raw=False, end=True)])
        log.close()
    bounded = [p for p in bound.iterdir() if p.name.startswith(("raw", "index", "stats"))]
    assert len(bounded) == 3
    assert sum(p.stat().st_size for p in bounded) < limit  # numbers and facts are still stored
    assert measure(free).size_bytes > 2 * limit
    found = read_records(bound)
    assert len(found) == 81
    assert sum(told(found, "tensors kept whole")) > 0


def test_the_limit_of_a_run_is_shared_and_earlier_attempts_count(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "x").write_bytes(b"\0" * 2**20)
    assert share_bytes(tmp_path, 0.0, 4) is None
    assert share_bytes(tmp_path, 9.0, 4) == pytest.approx(2 * 2**20)
    assert share_bytes(tmp_path, 0.5, 4) == 0.0


def test_files_that_go_away_while_they_are_counted_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other ranks replace files of the run at that moment."""
    (tmp_path / "kept").write_bytes(b"\0" * 2**20)
    (tmp_path / ".ledger.json.7").write_bytes(b"\0")
    lstat = os.lstat

    def gone(path: Path | str, **options: int) -> os.stat_result:
        if Path(path).name == ".ledger.json.7":
            raise FileNotFoundError(path)
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", gone)
    assert share_bytes(tmp_path, 9.0, 4) == pytest.approx(2 * 2**20)


def test_a_refused_append_is_not_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WorkerLog(tmp_path, limit_bytes=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", Mock(side_effect=OSError(28, "No space left on device")))
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                log.append([step(0)])
    log.append([step(0)])
    log.append([step(1, raw=False, end=True)])
    log.close()
    found = read_records(tmp_path)
    assert sum(told(found, "tensors kept whole")) == 1
    assert sum(told(found, "statistics rows")) == 200
