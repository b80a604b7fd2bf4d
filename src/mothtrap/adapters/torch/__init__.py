"""PyTorch: watch the objects of a loop, or every training of a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import nn

from mothtrap.adapters.torch.hooks.job_store import job_store
from mothtrap.adapters.torch.hooks.object_hooks import ObjectHooks
from mothtrap.adapters.torch.hooks.process_hooks import ProcessHooks
from mothtrap.adapters.torch.hooks.reports import REPORTS as REPORTS
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job.unheard import UNHEARD
from mothtrap.checks.check import Check
from mothtrap.checks.step import Step
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.check_plan import CheckPlan
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.replays import ReplayPlan
from mothtrap.tracing.adapter_job import traced

FRAMEWORK: str = "torch"
REQUIRES: str = "torch>=2.6"
ARRAYS: str = "torch"
STEPS: Literal["own", "base", "none"] = "own"


def refines() -> str | None:
    """Return None: this framework stands on its own."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object."""
    return isinstance(target, nn.Module)


def attach(job: Job, targets: Sequence[object]) -> ObjectHooks:
    """Watch models and their optimizers, the models first; touches nothing else.

    Raises:
        TypeError: the first is no model, or one that follows the models is no optimizer.
    """
    models: list[nn.Module] = []
    for target in targets:
        if not isinstance(target, nn.Module):
            break
        models.append(target)
    if not models:
        raise TypeError(f"cannot watch a {type(targets[0]).__qualname__} as a model")
    tracer = Tracer(traced(job))
    with UNHEARD.enter():
        return ObjectHooks(tracer, models, targets[len(models) :])


def attach_process(job: Job) -> ProcessHooks:
    """Watch every model and optimizer of this process, from before they are made."""
    tracer = Tracer(traced(job))
    tracer.random_start.early = True
    return ProcessHooks(tracer)


def attach_replay(plan: ReplayPlan) -> None:
    """Replay a recorded step in this process (`session.replay`)."""
    from mothtrap.adapters.torch.reproduce.replaying.beginning import begin, begin_built

    if plan.build:
        begin_built(plan, plan.build)
    here = environment()
    begin(plan, here.rank, here.size)


def attach_check(
    plan: CheckPlan,
    checks: Sequence[Check],
    finish: Callable[[Sequence[CheckResult]], object],
    files: Any = None,
) -> None:
    """Check the script of this process; see `session.checked_process`."""
    from mothtrap.adapters.torch.checking.beginning import begin

    begin(plan, checks, finish, files)


def explicit_step(
    model: nn.Module,
    loader: Iterable[Any],
    loss: Callable[..., Any] | None,
    step: Callable[[Any], torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | None,
) -> Step:
    """Return the step that `mothtrap.check` checks; see `session.explicit_check`."""
    from mothtrap.adapters.torch.checking.explicit import ExplicitStep

    return ExplicitStep.of(model, loader, loss, step, optimizer)


def environment() -> Environment:
    """Return rank and size, the versions that matter, and the store of the job."""
    rank, size = _ranks()
    found: dict[str, Any] = {"torch": torch.__version__}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    versions = {name: str(version) for name, version in found.items()}
    return Environment(rank=rank, size=size, versions=versions, store=job_store())


def _ranks() -> tuple[int | None, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    known = rank is not None and rank.isdigit()
    return (int(rank) if known and rank else None), int(size) if size and size.isdigit() else 1
