"""Merged log of one node: the steps and facts of all its workers, written by its launcher.

A step takes 52 bytes. Rows with a `type` contain a fact as JSON instead of numbers. A row of type
`beat` only means that the launcher is running, and a row of type `sign` only that the process of a
worker is running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from mothtrap.core import fact
from mothtrap.core.fact import Fact
from mothtrap.store import columns
from mothtrap.store.durability import Durability
from mothtrap.store.rolling import RollClock
from mothtrap.store.segments import SegmentLog
from mothtrap.store.tailing import SegmentTail

TABLE = "workers"
BEAT, SIGN = "beat", "sign"
_OPTIONAL = ("step_s", "loss", "gradient_norm")
SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint32(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("left_s", pa.float64(), nullable=False),
        *(pa.field(name, pa.float64()) for name in _OPTIONAL),
        pa.field("type", pa.string(), nullable=False),
        pa.field("json", pa.string(), nullable=False),
    ]
)
_BATCH_ERRORS = (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError)


class WorkerStep(NamedTuple):
    """One train step of a worker; None for numbers that were not captured.

    Attributes:
        rank: rank of the worker.
        step: number of the step.
        left_s: Unix time of its end, by the clock of the node.
        step_s: seconds of the step.
        loss: loss of the step.
        gradient_norm: norm of the gradient.
    """

    rank: int
    step: int
    left_s: float
    step_s: float | None = None
    loss: float | None = None
    gradient_norm: float | None = None


class WorkerFact(NamedTuple):
    """One fact of a worker, and the Unix time of its record by the clock of the node."""

    rank: int
    left_s: float
    fact: Fact


class NodeRows(NamedTuple):
    """New rows of one node, in order of writing.

    `beat_s` is the latest time at which its launcher was running, by the clock of the node; 0 if
    there is no new time. `signs` contains the latest time at which each worker's process was
    running, by rank.
    """

    steps: list[WorkerStep]
    facts: list[WorkerFact]
    beat_s: float
    signs: dict[int, float] = {}


class NodeLog:
    """Writes the merged log; appended rows survive the process.

    Args:
        folder: folder of the node (`layout.node_folder`); created if absent.
        durability: failures that the rows survive.
        roll_s: seconds after which the segment is sealed, too; see `rolling`.
    """

    def __init__(
        self, folder: Path, *, durability: Durability = "crash", roll_s: float | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = SegmentLog(folder, TABLE, durability=durability)
        self._clock = RollClock(roll_s)

    def append(
        self,
        steps: Sequence[WorkerStep],
        facts: Sequence[WorkerFact],
        beat_s: float,
        signs: Mapping[int, float] | None = None,
    ) -> None:
        """Write steps, facts, and the times at which the launcher and workers ran.

        Raises:
            OSError: the disk rejected the write; no data of this call is written.
        """
        rows: list[tuple[object, ...]] = [(*step, "", "") for step in steps]
        for rank, left_s, seen in facts:
            empty = (None,) * len(_OPTIONAL)
            rows.append((rank, seen.step, left_s, *empty, fact.tag_of(seen), fact.to_json(seen)))
        lives = [(0, beat_s, BEAT), *((rank, at_s, SIGN) for rank, at_s in (signs or {}).items())]
        rows += [(rank, 0, at_s, *(None,) * len(_OPTIONAL), kind, "") for rank, at_s, kind in lives]
        rank_N, step_N, left_N, *optional, types, texts = zip(*rows, strict=True)
        arrays = [
            columns.numbers(np.array(rank_N, np.uint32)),
            columns.numbers(np.array(step_N, np.int64)),
            columns.numbers(np.array(left_N, np.float64)),
            *(_nullable(values) for values in optional),
            columns.texts(types),
            columns.texts(texts),
        ]
        self._log.append(pa.record_batch(arrays, schema=SCHEMA))
        self._clock.wrote()
        self.tend()

    def tend(self) -> None:
        """Seal the segment if it is due; raises OSError."""
        if self._clock.due:
            self.close()

    def close(self) -> None:
        """Seal the segment; rows that are appended later begin a new segment."""
        self._log.close()
        self._clock.sealed()


class NodeReader:
    """Reads the merged log of a node, even while it grows.

    Args:
        folder: folder of the node; need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._tail = SegmentTail(folder, TABLE)
        self._name = folder.name
        self._damage: list[str] = []

    def poll(self) -> NodeRows:
        """Return the rows added since the last call."""
        steps: list[WorkerStep] = []
        facts: list[WorkerFact] = []
        beat_s = 0.0
        signs: dict[int, float] = {}
        while batches := self._tail.poll():
            for batch in batches:
                try:
                    rows = list(
                        zip(*(batch.column(n).to_pylist() for n in SCHEMA.names), strict=True)
                    )
                except _BATCH_ERRORS as err:
                    self._damage.append(f"{self._name}: a batch cannot be understood: {err}")
                    continue
                for *numbers, kind, text in rows:
                    if not kind:
                        steps.append(WorkerStep(*numbers))
                    elif kind == BEAT:
                        beat_s = max(beat_s, numbers[2])
                    elif kind == SIGN:
                        signs[numbers[0]] = max(signs.get(numbers[0], 0.0), numbers[2])
                    else:
                        self._take_fact(facts, numbers[0], numbers[2], kind, text)
        return NodeRows(steps, facts, beat_s, signs)

    def damage(self, *, ended: bool = False) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        return (*self._tail.damage, *self._damage, *(self._tail.pending if ended else ()))

    def _take_fact(
        self, facts: list[WorkerFact], rank: int, left_s: float, kind: str, text: str
    ) -> None:
        try:
            facts.append(WorkerFact(rank, left_s, fact.decode(kind, text)))
        except (msgspec.DecodeError, UnicodeError) as err:
            self._damage.append(f"{self._name}: a fact cannot be understood: {err}")


def _nullable(values: Sequence[object]) -> pa.Array:
    present_N = np.array([value is not None for value in values])
    value_N = np.array([0.0 if value is None else value for value in values], np.float64)
    return columns.nullable(value_N, present_N)
