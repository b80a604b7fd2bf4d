"""Trainings of boosting libraries watched in memory, for the tests of their adapters."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mothtrap.core.adapters import Handle, Job
from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode
from mothtrap.testing.adapters import Process
from mothtrap.tracing.boosting import trees
from mothtrap.tracing.boosting.rounds import Rounds
from mothtrap.tracing.handle import AdapterSpec


def watched(
    adapter: AdapterSpec, train: Callable[[], object], *targets: object
) -> tuple[Process, object]:
    """Train under an adapter; return what was recorded and what the training function returned."""
    process = Process("numpy")

    def begin(job: Job) -> Handle:
        return adapter.attach(job, targets)

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


def shuffled(rows: int = 60) -> tuple[Any, Any]:
    """Return a frame of pandas, and labels with the same row names in another order."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = pandas.DataFrame(rng.normal(size=(rows, 5)), columns=list("abcde"))
    x = x.sample(frac=1, random_state=0)
    return x, (x["a"] > 0).astype(int).sample(frac=1, random_state=1)


LOOKS = ("leaves", "gains", "predictions")
"""Methods of a library's model that take time."""


def looks(
    monkeypatch: pytest.MonkeyPatch,
    adapter: AdapterSpec,
    model: type,
    train: Callable[[], object],
    *,
    look_s: float,
) -> Counter[str]:
    """Count the observations in a training with a 2 % budget and rounds of about 10 ms each.

    Args:
        monkeypatch: fixture of the test.
        adapter: adapter of the library.
        model: function with which the adapter inspects a booster.
        train: runs the training.
        look_s: time of an inspection, in seconds of a clock that nothing else advances.
    """
    now, made = [0.0], Counter[str]()

    def slow(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any) -> Any:
            now[0] += look_s
            made[name] += 1
            return real(*args)

        return look

    for name in LOOKS:
        monkeypatch.setattr(model, name, slow(name, getattr(model, name)))
    monkeypatch.setattr(
        trees, "Allowance", functools.partial(trees.Allowance, clock=lambda: now[0])
    )
    closed = Rounds.closed

    def later(*args: Any) -> None:
        now[0] += 0.01
        closed(*args)

    monkeypatch.setattr(Rounds, "closed", later)
    process = Process("numpy", overhead=0.02)
    with process.watched(adapter):
        train()
    return made
