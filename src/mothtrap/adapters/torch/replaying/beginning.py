"""Start a replay in a process that has just imported a framework."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mothtrap.adapters.torch.hooks.process_hooks import ProcessHooks
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.replaying.building import BuiltReplay, build
from mothtrap.adapters.torch.replaying.replaying import Replaying
from mothtrap.adapters.torch.snapshots.reference_digests import StepDigests
from mothtrap.capture.containment import Containment, say_on_stderr
from mothtrap.capture.recorder import Recorder
from mothtrap.core import registry
from mothtrap.core.config import Config
from mothtrap.core.replays import ReplayPlan
from mothtrap.snapshot.format import load
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob
from mothtrap.tracing.snapshots.outcome import Outcome

QUIET = Config(capture="off", overhead=0.0, ring_mb=0.0)
"""Configuration that captures and records nothing: the tracer only names objects."""


def begin(plan: ReplayPlan, rank: int | None, size: int = 1) -> None:
    """Replay a snapshot in the script that is about to run.

    Args:
        plan: settings of the replay.
        rank: rank of this process; None if it has no snapshot so far.
        size: number of processes of the job.
    """
    tracer = _tracer()
    witness = ProcessHooks(tracer)
    atexit.register(lambda: witness)  # until the process ends
    if rank is None and len(plan.workers) > 1:
        _wait_for_rank(lambda own, of: _leave_to_others(_play(plan, tracer, own), own, of))
        return
    replaying = _play(plan, tracer, rank)
    if rank is None:
        _wait_for_rank(lambda own, of: _leave_to_others(replaying, own, of))
    else:
        _leave_to_others(replaying, rank, size)


def _play(plan: ReplayPlan, tracer: Tracer, rank: int | None) -> Replaying:
    number = rank if rank in plan.workers else min(plan.workers)
    loaded = load(Path(plan.workers[number]))
    truth = StepDigests(tracer.optimizers)
    replaying = Replaying(plan, loaded, tracer, truth, Outcome(plan, number))
    replaying.install()
    return replaying


def _leave_to_others(replaying: Replaying, rank: int, size: int) -> None:
    """Let a process without a snapshot participate, so that no other process waits for it."""
    if size > 1 and rank not in replaying.plan.workers:
        replaying.outcome.rank = rank
        replaying.comparison.expects_nothing()


def _wait_for_rank(act: Callable[[int, int], object]) -> None:
    """Call a function once this process knows its rank; most processes never do."""
    original = torch.distributed.init_process_group

    @functools.wraps(original)
    def initialize(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        act(torch.distributed.get_rank(), torch.distributed.get_world_size())

    setattr(torch.distributed, "init_process_group", initialize)  # noqa: B010


def begin_built(plan: ReplayPlan, name: str) -> None:
    """Replay a snapshot with a model and loss from a function; ends the process.

    Args:
        plan: settings of the replay.
        name: name of the function, `module:function`.

    Raises:
        ReplayError: the function does not return them.
    """
    number = min(plan.workers)
    loaded = load(Path(plan.workers[number]))
    BuiltReplay(plan, loaded, _tracer(), Outcome(plan, number)).run(build(name))


def _tracer() -> Tracer:
    reducer: Any = registry.load("mothtrap.statistics", "torch")
    recorder: Recorder[torch.Tensor] = Recorder(
        reducer, (), Containment(say_on_stderr), overhead=0.0, on_first_step=lambda: None
    )
    return Tracer(AdapterJob(ProcessJob(recorder, QUIET), "torch"))
