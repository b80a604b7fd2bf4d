"""Trainings of boosting libraries watched in memory, for the tests of their adapters."""

from __future__ import annotations

from collections.abc import Callable

from mothtrap.core.adapters import Adapter, Handle, Job
from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode
from mothtrap.testing.adapters import Process


def watched(
    adapter: Adapter, train: Callable[[], object], *targets: object
) -> tuple[Process, object]:
    """Train under an adapter; return what was recorded, and what the training returns."""
    process = Process("numpy")

    def begin(job: Job) -> Handle:
        return adapter.attach(job, targets) if targets else adapter.attach_process(job)

    with process.watched(adapter, begin):
        result = train()
    assert not [line for line in process.said if "failed" in line], process.said
    return process, result


def of(process: Process, kind: type[Fact]) -> list[Fact]:
    """Return the facts of one kind, in order."""
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def losses(process: Process, mode: Mode = Mode.TRAIN, name: str = "loss") -> list[float]:
    """Return the values of one number, in order."""
    return [
        scalar.value
        for record in process.records
        if record.key.mode is mode
        for scalar in record.scalars
        if scalar.name == name
    ]
