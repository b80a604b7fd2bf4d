"""A run of two workers with data of every kind, and what readers may return of it.

Whatever damage its files have, a reader may return less, but never anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.reader.runs import DEAD_PID, info, started
from tests.store.records import plain, record
from tests.store.test_finding_log import finding
from tests.store.test_raw_log import block

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RuleStatus, RunEnd, RunInfo
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog, FindingReader
from mothtrap.store.raw_reading import RawIndex, read_bytes
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import EventReader, ReadState

STEPS = 10
WORKERS = 2
ROLL_BYTES = 4096
FINDINGS = tuple(finding(f"GRD10{number}", count=number) for number in range(5))
STATUS = RuleStatus(code="GRD101", name="exploding_gradient", state=RuleState.ERROR)
Raw = dict[tuple[int, int], bytes]
"""Bytes of whole tensors by step and tensor."""


@dataclass(frozen=True)
class Found:
    """All that the readers of a run return, and what they report as unreadable."""

    info: RunInfo | None
    end: RunEnd | None
    records: tuple[tuple[StepRecord, ...], ...]
    raw: tuple[Raw, ...]
    findings: tuple[Finding, ...]
    statuses: tuple[RuleStatus, ...]
    damage: tuple[str, ...]


@dataclass(frozen=True)
class SmallRun:
    """The folder of a run, and its contents."""

    path: Path
    sealed: bool
    found: Found


def steps_of(worker: int) -> list[StepRecord]:
    """Return a worker's captures: three tensors a step, two of them whole at even steps."""
    items = []
    for step in range(STEPS):
        values = (np.arange(9.0) + step + 100 * worker, np.full((2, 3), step, np.int8))
        seen = (Blind(step=step, what=f"part {step}", reason="hidden"),)
        if step == 0:
            seen = (started(DEAD_PID), *seen)
        whole = (block(*values),) if step % 2 == 0 else ()
        items.append(record(step, raw=whole, observations=seen, wall_s=1e9 + worker + step))
    end = WorkerEnded(step=STEPS, steps=STEPS, own_s=0.5, wall_s=9.0)
    items.append(record(STEPS, tensors=0, optimizers=(), scalars=(), observations=(end,)))
    return items


def write(path: Path, *, sealed: bool) -> SmallRun:
    """Write the run, sealed or as writers leave it that were killed."""
    attempt = layout.create_run(path, info(id="small", pid=DEAD_PID, created_s=1e9))
    for worker in range(WORKERS):
        log = WorkerLog(layout.claim_worker(attempt, worker)[1], roll_bytes=ROLL_BYTES)
        for item in steps_of(worker):
            log.append([item])
        findings = FindingLog(layout.monitor_folder(attempt, worker))
        for item in FINDINGS:
            findings.append([item], [STATUS])
        if sealed:
            log.close()
            findings.close()
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=2e9))
    found = read(path)
    assert found.damage == ()
    for worker in range(WORKERS):
        stored = [plain(item) for item in found.records[worker]]
        assert stored == [plain(item) for item in steps_of(worker)]
    return SmallRun(path, sealed, found)


def read(path: Path) -> Found:
    """Read everything in a run."""
    attempt, damage = path / "1", []
    described: dict[str, object] = {}
    for name, reader in (("info", layout.read_info), ("end", layout.read_end)):
        try:
            described[name] = reader(attempt)
        except DamagedDataError as err:
            described[name] = None
            damage.append(str(err))
    records, raw = [], []
    findings, statuses = [], []
    for worker in range(WORKERS):
        folder = layout.worker_folder(attempt, worker)
        state = ReadState(folder)
        records.append(tuple(state.poll()))
        damage += state.damage(ended=True)
        raw.append(_read_raw(folder, damage))
        reader = FindingReader(layout.monitor_folder(attempt, worker))
        reader.poll()
        findings += reader.findings
        statuses += reader.statuses
        damage += reader.damage(ended=True)
    return Found(
        info=described["info"],  # type: ignore[arg-type]
        end=described["end"],  # type: ignore[arg-type]
        records=tuple(records),
        raw=tuple(raw),
        findings=tuple(findings),
        statuses=tuple(statuses),
        damage=tuple(damage),
    )


def _read_raw(folder: Path, damage: list[str]) -> Raw:
    index, found = RawIndex(folder), Raw()
    for events in EventReader(folder).poll():
        for row in index.take(events):
            try:
                found[row.key.step, row.tensor] = read_bytes(folder, row)
            except DamagedDataError as err:
                damage.append(str(err))
    damage += index.damage(ended=True)
    return found


def is_part_of(less: Found, whole: Found) -> bool:
    """Return whether everything in `less` is in `whole`, value for value."""
    described = less.info in (None, whole.info) and less.end in (None, whole.end)
    records = all(
        _is_part_of(one, {item.key: item for item in all_of})
        for one, all_of in zip(less.records, whole.records, strict=True)
    )
    raw = all(a.items() <= b.items() for a, b in zip(less.raw, whole.raw, strict=True))
    judged = all(item in whole.findings for item in less.findings)
    return described and records and raw and judged and set(less.statuses) <= set(whole.statuses)


def _is_part_of(less: tuple[StepRecord, ...], whole: dict[object, StepRecord]) -> bool:
    keys = [item.key for item in less]
    if keys != sorted(set(keys)) or not set(keys) <= whole.keys():
        return False
    lost = {tensor for key in whole.keys() - set(keys) for tensor in whole[key].defined}
    for item in less:
        given, expected = plain(item), plain(whole[item.key])
        for position, (one, other) in enumerate(zip(given, expected, strict=True)):
            empty = position in _MAY_LACK and not one
            rows_gone = position == _SHAPE and one == (0, len(item.summary_TF[0:0].T))
            # The definitions in a lost record are repeated in the next batch.
            again = position == _DEFINED and set(one) - lost <= set(other) <= set(one)
            if one != other and not (empty or rows_gone or again):
                return False
    return True


# Places in `plain`: definitions, bytes of ids and of statistics, their shape, scalars.
_DEFINED, _MAY_LACK, _SHAPE = 4, (6, 8, 9), 7


def same(one: Found, other: Found) -> bool:
    """Return whether two readings returned the same values."""
    return is_part_of(one, other) and is_part_of(other, one)
