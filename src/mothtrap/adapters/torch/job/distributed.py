"""Distributed training: the local part of a tensor, and values that all workers must share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mothtrap.adapters.torch.job.replica_batches import ReplicaBatchObserver
from mothtrap.adapters.torch.job.unwrapped_states import Optimizers
from mothtrap.adapters.torch.job.worker_states import WorkerStateObserver, ranks_with_parts
from mothtrap.core.facts.replicas import ReplicaDigests, WrapperBypassed
from mothtrap.core.scopes import PARTIAL, REPLICA, Shard, scope_words
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.naming import Root

DENSE_STEPS, DIGEST_EVERY = (0, 1, 3, 7, 15, 31, 63), 100
"""Number of first steps of a process in which replicas and their inputs are compared, to detect a
wrong setup, and the interval afterwards. Chosen by hand: reading all weights is cheaper than a
step, but not free.
"""
REPORTED_AT = (1, 10)
REPORTED_EVERY = 100
"""Number of steps without the wrapper after which it is reported, possibly again."""


def in_group() -> bool:
    """Return whether other processes train together with this one."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def is_distributed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a `DTensor`, without importing anything."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def scope_of(tensor: torch.Tensor) -> str:
    """Return the scope of a `DTensor` on this worker; empty for a plain tensor."""
    if not is_distributed(tensor):
        return ""
    distributed: Any = tensor
    mesh = distributed.device_mesh
    names, place = mesh.mesh_dim_names, mesh.get_coordinate()
    parts = []
    for axis, placement in enumerate(distributed.placements):
        if mesh.size(axis) == 1:
            continue
        index = 1 + place[axis] if place is not None else 0
        parts.append((_words(placement, index, mesh.size(axis)), names[axis] if names else ""))
    return scope_words(parts)


def local_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape of this worker's part of a tensor."""
    distributed: Any = tensor
    return tuple(distributed.to_local().shape if is_distributed(tensor) else tensor.shape)


def own_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor as a plain tensor if this worker holds all of it, else None.

    Performs no operation on a `DTensor`, which might wait for workers that do not take part.
    """
    if not is_distributed(tensor):
        return tensor
    distributed: Any = tensor
    if all(placement.is_replicate() for placement in distributed.placements):
        whole: torch.Tensor = distributed.to_local()
        return whole
    return None


def _words(placement: Any, index: int, count: int) -> str:
    dim = getattr(placement, "dim", None)  # also of a `_StridedShard`, which is no `Shard`
    if dim is not None:
        return str(Shard(index, count, dim))
    if placement.is_replicate():
        return REPLICA
    return PARTIAL if placement.is_partial() else repr(placement)


class DistributedObserver:
    """Observes the wrappers that keep replicas equal, and calls that bypass them."""

    def __init__(self, job: Job, optimizers: Optimizers) -> None:
        self._job, self._optimizers = job, optimizers
        self._replicas: ByIdentity[torch.Tensor, int] = ByIdentity()
        self._roots_seen = -1
        self._averaged = False
        self._around: tuple[Root, str, str | None] | None = None
        self._bypassed = self._closed = 0
        self._batches = ReplicaBatchObserver(job)
        self._states = WorkerStateObserver(job, optimizers, self.scope)

    def is_replica(self, parameter: torch.Tensor) -> bool:
        """Return whether a wrapper keeps a parameter equal on all workers."""
        self._look_for_new_roots()
        return parameter in self._replicas

    def is_held_before(self, parameter: torch.Tensor) -> bool:
        """Return whether a worker of lower rank holds the same values, kept equal by a wrapper."""
        lowest = self._replicas.get(parameter) if self.is_replica(parameter) else None
        return lowest is not None and lowest < torch.distributed.get_rank()

    def scope(self, parameter: torch.Tensor) -> str:
        """Return the scope of a parameter on this worker."""
        return REPLICA if self.is_replica(parameter) else scope_of(parameter)

    def root_called(
        self, module: nn.Module, root: Root, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        """Handle the start of an outermost forward pass: check whether it belongs to the wrapper.

        Args:
            module: the called module.
            root: the model that contains the module, or is the module.
            args: its positional arguments.
            kwargs: its keyword arguments.
        """
        whole = root.module()
        if not (torch.is_grad_enabled() and in_group()) or whole is None:
            return
        given, is_due = (*args, *kwargs.values()), self._is_due(self._job.grouper.step)
        if module is whole and torch.distributed.get_world_size() > 1:
            look = functools.partial(self._states.called, is_due=is_due)
            self._job.contain_part("comparison of workers", look, whole, given)
        if not isinstance(whole, DistributedDataParallel):
            if module is whole and is_due and (ranks := ranks_with_parts(whole)):
                take = self._batches.called_in_parts
                self._job.contain_part("batches of replicas", take, ranks, given)
            return
        if world_size_of(whole) < 2:
            return
        if module is whole and is_due:
            self._job.contain_part("batches of replicas", self._batches.called, whole, given)
        if module is whole and whole.require_backward_grad_sync:
            self._averaged = True
        elif self._around is None:
            called = "" if module is whole else self._job.book.module_name(module)
            self._around = (root, called, frames.user_location())

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the settings with which an optimizer steps."""
        if in_group() and self._is_due(self._job.grouper.step):
            self._job.contain_part("comparison of workers", self._states.stepping, optimizer)

    def close(self, step: int, applied: bool) -> None:
        """Process the closed step."""
        around, self._around = self._around, None
        averaged, self._averaged = self._averaged, False
        if around is not None and applied and not averaged:
            self._report_bypass(step, *around)
        is_due = self._is_due(step)
        if is_due:
            self.tell_digests(step)
            self._batches.close(step)
        if in_group() and torch.distributed.get_world_size() > 1:
            close = functools.partial(self._states.close, is_due=is_due)
            self._job.contain_part("comparison of workers", close, step)
        self._closed += 1

    def _is_due(self, step: int) -> bool:
        return self._closed in DENSE_STEPS or step % DIGEST_EVERY == 0

    def tell_digests(self, step: int) -> None:
        """Record the digests of data that must be equal on other workers."""
        parts: dict[str, list[torch.Tensor]] = {}
        for parameter in self._optimizers.held():
            scope = self.scope(parameter)
            if REPLICA in scope:
                name, path = self._optimizers.name_of(parameter)
                shard = "; ".join(p for p in scope.split("; ") if not p.startswith(REPLICA))
                key = (path or name) + (f" ({shard})" if shard else "")
                parts.setdefault(key, []).append(parameter)
        if parts:
            digests = {
                key: f"{arithmetic.fingerprint(tensors):016x}" for key, tensors in parts.items()
            }
            self._job.recorder.notes.observe(ReplicaDigests(step=step, digests=digests))

    def _report_bypass(self, step: int, root: Root, called: str, place: str | None) -> None:
        self._bypassed += 1
        wrapper = root.module()
        if self._bypassed in REPORTED_AT or self._bypassed % REPORTED_EVERY == 0:
            self._job.recorder.notes.observe(
                WrapperBypassed(
                    step=step,
                    wrapper=type(wrapper).__name__,
                    called=called,
                    steps=self._bypassed,
                    world_size=world_size_of(wrapper),
                    location=place,
                )
            )

    def _look_for_new_roots(self) -> None:
        book = self._job.book
        if book.roots_seen == self._roots_seen:
            return
        self._roots_seen = book.roots_seen
        for root in book.roots:
            whole = root.module()
            for module in whole.modules() if whole is not None else ():
                if isinstance(module, DistributedDataParallel) and world_size_of(module) > 1:
                    ignored, lowest = module.parameters_to_ignore, _lowest_of(module)
                    for name, parameter in module.module.named_parameters():
                        if name not in ignored:
                            self._replicas[parameter] = lowest


def _lowest_of(wrapper: Any) -> int:
    """Return the lowest rank of the workers over which a wrapper averages."""
    return min(torch.distributed.get_process_group_ranks(wrapper.process_group))


def world_size_of(wrapper: Any) -> int:
    """Return the number of workers over which a wrapper averages; 1 if unknown."""
    group = getattr(wrapper, "process_group", None)
    return int(group.size()) if group is not None else 1
