"""Observe a piece of training in this process and keep the records in a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch import attach, attach_process
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.capture.containment import Containment
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.selection import RAW, Stream, streams
from mothtrap.core.config import Config
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind
from mothtrap.core.records import StepRecord
from mothtrap.core.schedule import EVERY_STEP, Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.monitor.catalogue import load_rules
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.summary import FIELDS
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob

T = TypeVar("T")
_RULES = load_rules(Config())
DEFAULT = streams(Config(), [need for rule in _RULES for need in rule.needs])
EVERYTHING = streams(Config(capture="everything"), [need for rule in _RULES for need in rule.needs])


def whole(
    *kinds: str,
    statistics: Sequence[str] = (RAW,),
    schedule: Schedule = EVERY_STEP,
    modes: Sequence[Mode] = (Mode.TRAIN, Mode.EVAL),
    matches: Callable[[TensorInfo], bool] = lambda info: info.kind != "input" or info.of_root,
) -> tuple[Stream]:
    """A stream that keeps tensors of some kinds whole."""
    return (
        Stream(
            name="whole",
            kinds=kinds,
            statistics=frozenset(statistics),
            matches=matches,
            schedules=dict.fromkeys(modes, schedule),
        ),
    )


@dataclass
class Seen:
    """A sink that keeps records, with the queries that tests need."""

    tracer: Tracer
    said: list[str] = field(default_factory=list)
    records: list[StepRecord] = field(default_factory=list)
    tensors: dict[int, TensorInfo] = field(default_factory=dict)

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        self.records.append(record)
        self.tensors.update(record.defined)

    def observer(self, kind: type[T]) -> T:
        """Return the only observer of a class."""
        [found] = (one for one in self.tracer.observers.members if isinstance(one, kind))
        return found

    def steps(self, mode: Mode = Mode.TRAIN) -> list[StepRecord]:
        return [record for record in self.records if record.key.mode is mode]

    def scalars(self, name: str, of: str | None = None, mode: Mode = Mode.TRAIN) -> list[float]:
        return [
            scalar.value
            for record in self.steps(mode)
            for scalar in record.scalars
            if scalar.name == name and of in (None, scalar.of)
        ]

    def failed(self) -> list[str]:
        """Return the parts of mothtrap that failed; each was reported once."""
        failures = self.tracer.recorder.containment.failures
        assert len(self.said) == len(failures)
        return [failure.part for failure in failures]

    def observed(self, kind: type[Fact]) -> list[Fact]:
        return [o for record in self.records for o in record.observations if isinstance(o, kind)]

    def blind(self) -> list[str]:
        return [blind.what for blind in self.observed(Blind)]

    def names(self, kind: str) -> list[str]:
        return [info.name for info in self.tensors.values() if info.kind == kind]

    def info(self, identity: str) -> TensorInfo:
        return next(info for info in self.tensors.values() if info.identity == identity)

    def rows(self, identity: str, statistic: str, mode: Mode = Mode.TRAIN) -> dict[int, float]:
        """Return the values of a statistic by step; NaN rows are omitted."""
        column = FIELDS.index(statistic)
        found = {}
        for record in self.steps(mode):
            for tensor_id, row in zip(record.tensor_T, record.summary_TF, strict=True):
                if self.tensors[int(tensor_id)].identity == identity and not np.isnan(row[column]):
                    found[record.key.step] = float(row[column])
        return found

    def raw(self, identity: str, mode: Mode = Mode.TRAIN) -> list[tuple[int, torch.Tensor]]:
        """Return the steps and exact values of a tensor in the order of capture."""
        found = []
        for record in self.steps(mode):
            for block in record.raw:
                for row, number in enumerate(block.tensor_R.tolist()):
                    if self.tensors[number].identity == identity:
                        part = block.bytes_N[block.offset_R[row] : block.offset_R[row + 1]]
                        values = torch.from_numpy(part.copy()).view(
                            getattr(torch, block.dtypes[row])
                        )
                        found.append((record.key.step, values.reshape(block.shapes[row])))
        return found

    def kept(self) -> set[str]:
        """Return the identities of the tensors of which at least one copy was kept."""
        return {
            self.tensors[number].identity
            for record in self.records
            for block in record.raw
            for number in block.tensor_R.tolist()
        }


def same(captured: Sequence[tuple[int, torch.Tensor]], own: Sequence[torch.Tensor]) -> bool:
    """Return whether the program's own values, one per step from 0, were captured bit for bit."""
    return [step for step, _ in captured] == list(range(len(own))) and all(
        got.dtype == value.dtype
        and got.shape == value.shape
        and torch.equal(got.reshape(-1).view(torch.uint8), _bits(value))
        for (_, got), value in zip(captured, own, strict=True)
    )


def _bits(value: torch.Tensor) -> torch.Tensor:
    return value.detach().contiguous().reshape(-1).view(torch.uint8)


@contextmanager
def watched(
    model: nn.Module | None = None,
    *optimizers: torch.optim.Optimizer,
    capture: Sequence[Stream] = EVERYTHING,
    may_fail: bool = False,
    config: Config | None = None,
    overhead: float = 0.0,
) -> Iterator[Seen]:
    """Observe the process, or one model; always detach, and fail if mothtrap failed.

    With the usual `overhead` the steps of these small models are light from step 64 on.
    """
    said: list[str] = []
    containment = Containment(said.append)
    recorder: Recorder[torch.Tensor] = Recorder(
        arithmetic, capture, containment, overhead=overhead, on_first_step=lambda: None
    )
    job = AdapterJob(ProcessJob(recorder, config), "torch")
    handle = attach_process(job) if model is None else attach(job, [model, *optimizers])
    seen = Seen(handle.tracer, said)
    recorder.sinks.append(seen)
    try:
        yield seen
    finally:
        handle.detach()
    if not may_fail:
        assert not containment.failures, "\n".join(f.traceback for f in containment.failures)


def classifier(*, inputs: int = 6, hidden: int = 8, classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def batch(rows: int = 4, inputs: int = 6, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, inputs), torch.arange(rows) % classes


def sgd(model: nn.Module, rate: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=rate)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3, *, set_to_none: bool = True
) -> list[float]:
    """Run the plain loop; return its losses."""
    losses = []
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert math.isfinite(losses[-1])
    return losses
