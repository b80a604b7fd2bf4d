"""Small trainings in the test's own process, and runs written by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tests.reader.runs import DEAD_PID, closing, info
from tests.store.records import record
from torch import nn

import mothtrap
from mothtrap import Run, Watch
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunEnd
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

UNJUDGED = {"select": ("DST",), "snapshots": 0}
"""Settings in which no rule requests captures, in a job of one worker."""

Each = Callable[[int, nn.Module, Watch], None]


def classifier() -> nn.Sequential:
    """Return a model with four input features and three classes."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def trained(
    folder: Path,
    steps: int,
    each: Each = lambda step, model, dbg: None,
    *,
    model: nn.Module | None = None,
    loss_of: Callable[..., Any] | None = None,
    lr: float = 0.05,
    **settings: Any,
) -> Run:
    """Train, and open the run; `each` is called between backward and optimizer step."""
    model = classifier() if model is None else model
    loss_of = nn.CrossEntropyLoss() if loss_of is None else loss_of
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    settings = {"overhead": 0.0, "runs_dir": str(folder), **settings}
    with mothtrap.watch(model, optimizer, **settings) as dbg:
        for step in range(steps):
            loss = loss_of(model(torch.randn(16, 4)), torch.randint(3, (16,)))
            optimizer.zero_grad()
            loss.backward()
            each(step, model, dbg)
            optimizer.step()
            dbg.step(loss=loss)
    assert dbg.path is not None
    run = mothtrap.open_run(dbg.path.name, settings["runs_dir"])
    assert run.tool_errors == ()
    return run


def parameter(model: nn.Module, name: str) -> nn.Parameter:
    """Return a parameter by its name."""
    return dict(model.named_parameters())[name]


def steps_of_worker(
    rank: int, numbers: Sequence[int], *, of: int = 1, dead: bool = False, closed: bool = False
) -> list[StepRecord]:
    """Return the records that one of several workers wrote.

    Args:
        rank: of the worker.
        numbers: the steps that it captured.
        of: workers of the job.
        dead: whether its process is gone.
        closed: whether it ended normally.
    """
    start = WorkerStarted(
        step=0,
        rank=rank,
        world_size=of,
        pid=DEAD_PID if dead else os.getpid(),
        host=info().host,
        framework="torch",
        versions={},
    )
    defined = record(0).defined
    records = [
        replace(record(number), observations=(start,), defined=defined)
        if place == 0
        else replace(record(number), defined=())
        for place, number in enumerate(numbers)
    ]
    return [*records, closing(numbers[-1] + 1)] if closed else records


def job(folder: Path, *workers: list[StepRecord], ended: bool = False) -> Run:
    """Return a run of workers; a list without records is a worker that has not begun."""
    attempt = layout.create_run(folder / "x", info())
    for rank, records in enumerate(workers):
        if records:
            log = WorkerLog(layout.claim_worker(attempt, rank)[1])
            log.append(records)
            log.close()
    if ended:
        layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))
    return mothtrap.open_run(folder / "x")
