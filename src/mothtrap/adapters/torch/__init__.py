"""PyTorch: observe the objects of a loop, or all training runs of a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from torch import nn

from mothtrap.adapters.torch.hooks.job_store import job_store
from mothtrap.adapters.torch.hooks.object_hooks import ObjectHooks
from mothtrap.adapters.torch.hooks.process_hooks import ProcessHooks
from mothtrap.adapters.torch.hooks.reports import REPORTS
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job.unheard import UNHEARD
from mothtrap.core.adapters import Environment, Handle, Job
from mothtrap.core.check_plan import CheckPlan
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.facts.stalls import CollectiveCall
from mothtrap.core.replays import ReplayPlan
from mothtrap.tracing.adapter_parts import CheckParts, StallParts
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.jobs.adapter_job import traced

if TYPE_CHECKING:
    from mothtrap.checks.check import Check
    from mothtrap.checks.step import Step
    from mothtrap.checks.subject import DataSet


def attach(job: Job, targets: Sequence[object]) -> ObjectHooks:
    """Observe some models and their optimizers.

    Raises:
        TypeError: the first object is not a model, or an object after the models is not an
            optimizer.
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
    """Observe every model and optimizer that this process creates."""
    tracer = Tracer(traced(job))
    tracer.random_start.early = True
    return ProcessHooks(tracer)


def _handle(job: Job, targets: Sequence[object]) -> Handle:
    return attach(job, targets) if targets else attach_process(job)


def _replay(plan: ReplayPlan) -> None:
    """Replay a recorded step in this process (`session.replay`)."""
    from mothtrap.adapters.torch.replaying.beginning import begin, begin_built

    if plan.build:
        begin_built(plan, plan.build)
    here = _place()
    begin(plan, here.rank, here.size)


def _check(
    plan: CheckPlan,
    checks: Sequence[Check],
    finish: Callable[[Sequence[CheckResult], str], object],
    leave: Callable[[], object],
    pause: Callable[[], object],
    files: Any = None,
) -> None:
    """Check the script of this process; see `session.checked_process`."""
    from mothtrap.adapters.torch.checking.beginning import begin

    begin(plan, checks, finish, leave, pause, files)


def _trial(plan: CheckPlan, files: Any = None) -> None:
    """Run one trial in a restarted script; see `session.checked_process`."""
    from mothtrap.adapters.torch.checking.beginning import lead_writes
    from mothtrap.adapters.torch.checking.restarted_trial import RestartedTrial

    if files is not None:
        lead_writes(files)
    if plan.resume is not None:
        from mothtrap.adapters.torch.checking.resuming import ResumeNotes

        ResumeNotes(plan.resume).install()
    elif plan.repeat is not None:
        from mothtrap.adapters.torch.checking.first_steps import SecondStart

        SecondStart(plan).install()
    else:
        RestartedTrial(plan).install()


def _explicit_step(
    model: nn.Module,
    loader: Iterable[Any],
    loss: Callable[..., Any] | None,
    step: Callable[[Any], torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | None,
) -> Step:
    """Return the step that `mothtrap.check` checks; see `session.explicit_check`."""
    from mothtrap.adapters.torch.checking.explicit import ExplicitStep

    return ExplicitStep.of(model, loader, loss, step, optimizer)


def _explicit_set(
    loader: object, role: Literal["train", "evaluation"], batches: Sequence[Any] = ()
) -> DataSet | None:
    """Return the data set of a loader; see `session.explicit_check`."""
    from mothtrap.adapters.torch.checking.loader_sets import given_set

    return given_set(loader, role, batches)


def _place() -> Environment:
    """Return the rank, the number of workers, the relevant versions, and the store of the job."""
    rank, size = _ranks()
    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = str(torch.version.cuda)
    return Environment(rank=rank, size=size, versions=versions, store=job_store())


def _collective(frame: FrameType) -> CollectiveCall | None:
    """Return the last collective that this process has called."""
    from mothtrap.adapters.torch.job.collectives import last_call

    return last_call(frame)


def _ranks() -> tuple[int | None, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    known = rank is not None and rank.isdigit()
    return (int(rank) if known and rank else None), int(size) if size and size.isdigit() else 1


ADAPTER: Final = AdapterSpec(
    framework="torch",
    handle=_handle,
    requires="torch>=2.6",
    arrays="torch",
    reports=REPORTS,
    watched=(nn.Module,),
    beside=(object,),  # other objects are rejected when they are hooked
    replay=_replay,
    place=_place,
    checks=CheckParts(run=_check, trial=_trial, step=_explicit_step, data_set=_explicit_set),
    stalls=StallParts(collective=_collective),
)
