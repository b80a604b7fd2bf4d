"""Log of one monitor: every revision of every finding, and the state of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from mothtrap.core import jsonable
from mothtrap.core.findings import EvidenceValue, Finding
from mothtrap.core.runs import Evaluated, RuleStatus
from mothtrap.store import columns
from mothtrap.store.durability import Durability, sync_folder
from mothtrap.store.rolling import RollClock
from mothtrap.store.segments import SegmentLog
from mothtrap.store.tailing import SegmentTail

SCHEMA = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("type", "code", "json")]
)
_FINDING, _STATUS, _EVALUATED = "finding", "status", "evaluated"
MAX_BYTES = 1 << 20
"""Maximum size of a finding that is read; chosen by hand: 10,000 long names of layers fit."""
_NONFINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class FindingLog:
    """Writes findings and rule states; appended data survives the process.

    Args:
        folder: the monitor's folder (`layout.monitor_folder`); created if it does not exist.
        durability: failures that the findings survive.
        roll_s: seconds after which the segment is sealed, too; see `rolling`.
    """

    def __init__(
        self, folder: Path, *, durability: Durability = "crash", roll_s: float | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = SegmentLog(folder, "findings", durability=durability)
        self._durability = durability
        self._clock = RollClock(roll_s)
        if durability == "power":
            sync_folder(folder.parent)

    def append(
        self,
        findings: Sequence[Finding] = (),
        statuses: Sequence[RuleStatus] = (),
        evaluated: Evaluated | None = None,
    ) -> None:
        """Write revisions; a later revision of a fingerprint or code replaces earlier ones.

        Raises:
            OSError: the disk rejected the write; no data of this call is written.
        """
        rows = [(_FINDING, item.code, jsonable.text(item)) for item in findings]
        rows += [(_STATUS, item.code, jsonable.text(item)) for item in statuses]
        rows += [(_EVALUATED, "", jsonable.text(evaluated))] if evaluated is not None else []
        if rows:
            batch = [columns.texts(column) for column in zip(*rows, strict=True)]
            self._log.append(pa.record_batch(batch, schema=SCHEMA))
            if self._durability == "power":  # there are only a few
                self._log.sync()
            self._clock.wrote()
        self.tend()

    def tend(self) -> None:
        """Seal segments that are due; also call it while idle; raises OSError."""
        if self._clock.due:
            self.close()

    def close(self) -> None:
        """Seal the segment; later data begins a new segment."""
        self._log.close()
        self._clock.sealed()


@dataclass(slots=True)
class FindingReader:
    """Reads one monitor's folder, even while it is being written.

    Attributes:
        findings: every revision read so far, in the order of writing.
        statuses: every rule state read so far, in the order of writing.
        evaluated: progress of a monitor outside the job; None for a monitor in the job.
    """

    folder: Path
    findings: list[Finding] = field(default_factory=list)
    statuses: list[RuleStatus] = field(default_factory=list)
    evaluated: Evaluated | None = None
    _tail: SegmentTail = field(init=False)
    _damage: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._tail = SegmentTail(self.folder, "findings")

    def poll(self) -> int:
        """Read new data; return the number of new rows."""
        before = len(self.findings) + len(self.statuses)
        while batches := self._tail.poll():
            for batch in batches:
                self._read(batch)
        return len(self.findings) + len(self.statuses) - before

    def damage(self, *, ended: bool = False) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        return (*self._tail.damage, *self._damage, *(self._tail.pending if ended else ()))

    def _read(self, batch: pa.RecordBatch) -> None:
        try:
            columns = [batch.column(name).to_pylist() for name in ("type", "json")]
            for kind, text in zip(*columns, strict=True):
                if len(text) > MAX_BYTES:
                    self._damage.append(f"{self.folder.name}: a finding has {len(text):,} bytes")
                elif kind == _FINDING:
                    self.findings.append(with_numbers(jsonable.decode(text, Finding)))
                elif kind == _STATUS:
                    self.statuses.append(jsonable.decode(text, RuleStatus))
                elif kind == _EVALUATED:
                    self.evaluated = jsonable.decode(text, Evaluated)
        except (pa.ArrowException, KeyError, ValueError, msgspec.DecodeError) as err:
            self._damage.append(f"{self.folder.name}: a finding cannot be understood: {err}")


def with_numbers(finding: Finding) -> Finding:
    """Restore numbers in evidence that JSON stores as words: NaN and infinities."""

    def number(value: EvidenceValue) -> EvidenceValue:
        if isinstance(value, list):
            return [_NONFINITE.get(v, v) if isinstance(v, str) else v for v in value]
        return _NONFINITE.get(value, value) if isinstance(value, str) else value

    evidence = {name: number(value) for name, value in finding.evidence.items()}
    return msgspec.structs.replace(finding, evidence=evidence)
