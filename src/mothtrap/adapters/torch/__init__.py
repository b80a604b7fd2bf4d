"""PyTorch: watch the objects of a loop, or every training of a process."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job_store import job_store as job_store
from mothtrap.adapters.torch.objects import ObjectWitness
from mothtrap.adapters.torch.process import ProcessWitness
from mothtrap.adapters.torch.reproduce.comparing_runs.seeding import RandomStart
from mothtrap.adapters.torch.reproduce.comparing_runs.surroundings import Surroundings
from mothtrap.adapters.torch.tracer import Tracer
from mothtrap.capture.recorder import Recorder
from mothtrap.core.config import Config
from mothtrap.core.protocols import Handle
from mothtrap.core.replays import ReplayPlan
from mothtrap.statistics.torch.accelerator import Accelerator

FRAMEWORK = "torch"
REDUCER = "torch"
"""The module of `mothtrap.statistics` that reduces this framework's tensors."""


def accepts(target: object) -> bool:
    """Whether `attach` can watch an object."""
    return isinstance(target, nn.Module)


def attach(
    model: nn.Module,
    optimizers: tuple[Optimizer, ...],
    recorder: Recorder[torch.Tensor],
    config: Config | None = None,
) -> ObjectWitness:
    """Watch one model and its optimizers; touches nothing else."""
    _add_devices(recorder)
    return ObjectWitness(Tracer(recorder, config=config), model, optimizers)


def attach_process(
    recorder: Recorder[torch.Tensor], config: Config | None = None
) -> ProcessWitness:
    """Watch every model and optimizer of this process, from before they are made."""
    _add_devices(recorder)
    tracer = Tracer(recorder, config=config)
    tracer.random_start.early = True
    return ProcessWitness(tracer)


def _add_devices(recorder: Recorder[torch.Tensor]) -> None:
    """Have tensors on CUDA devices, where this torch knows any, read without waiting."""
    if torch.version.cuda or torch.version.hip:
        recorder.rows.device = Accelerator()


def surroundings(handle: Handle) -> Surroundings:
    """Read what the numbers of what a handle watches depend on."""
    tracer = getattr(handle, "tracer", None)
    return Surroundings(tracer.random_start if tracer is not None else RandomStart())


def attach_replay(plan: ReplayPlan) -> None:
    """Let this process do a recorded step again (`session.replay`)."""
    from mothtrap.adapters.torch.reproduce.replaying.beginning import begin, begin_built

    if plan.build:
        begin_built(plan, plan.build)
    begin(plan, *ranks())


def ranks() -> tuple[int | None, int]:
    """Rank and world size of this process; None where nobody gave it a rank."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    known = rank is not None and rank.isdigit()
    return (int(rank) if known and rank else None), int(size) if size and size.isdigit() else 1


def versions() -> dict[str, str]:
    """Versions that matter for a run."""
    found: dict[str, Any] = {"torch": torch.__version__}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return {name: str(version) for name, version in found.items()}
