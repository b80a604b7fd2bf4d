"""State that the workers of a job should have in common, recorded for comparison.

It includes digests of buffers, learning rates, frozen and tied parameters, the state of the random
generator before dropout, and the number of rows in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch
import xxhash
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.dropouts import is_dropout
from mothtrap.adapters.torch.job.naming import Root, strip_wrappers, unwrapped
from mothtrap.adapters.torch.job.randomness import RandomStates
from mothtrap.adapters.torch.job.replica_batches import rows_in
from mothtrap.adapters.torch.job.unwrapped_states import Optimizers, UnwrappedStateObserver
from mothtrap.core.facts.replicas import (
    BatchRows,
    BufferDigests,
    DropoutState,
    WorkerSettings,
)
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_PATHS = 8
ROWS_REPORTED = 65
"""Maximum number of recorded row counts. Chosen by hand: with more, the number of rows changes from
batch to batch on purpose. It is odd, so that the last recorded count does not belong to a short
batch.
"""


class WorkerStateObserver:
    """Records the state of this worker in steps in which workers are compared.

    Args:
        job: The job that trains.
        optimizers: Its optimizers.
        scope: returns the scope of a parameter; empty if no wrapper contains it.
    """

    def __init__(
        self, job: Job, optimizers: Optimizers, scope: Callable[[torch.Tensor], str]
    ) -> None:
        self._job, self._optimizers = job, optimizers
        self._unwrapped = UnwrappedStateObserver(job, optimizers, scope)
        self._generators = RandomStates()
        self._dropout: tuple[str, tuple[str, ...], str | None] | None = None
        self._rows = self._told_rows = self._times_told = 0
        self._location: str | None = None
        self._settings: WorkerSettings | None = None
        self._rates: dict[str, float] = {}

    def called(self, whole: nn.Module, given: Sequence[object], *, is_due: bool) -> None:
        """Inspect a model before one of its training forward passes.

        Args:
            whole: the model.
            given: its arguments.
            is_due: workers are compared in this step.
        """
        self._unwrapped.called(self._job.grouper.step, is_due=is_due)
        if self._times_told < ROWS_REPORTED:
            self._rows += rows_in(given)
            self._location = self._location or frames.user_location()
        if is_due and self._settings is None:
            # Read here, because after the step one worker may have done more than the others.
            self._settings = self._look_at_settings()
            self._dropout = self._before_dropout(whole)

    def stepping(self, optimizer: Optimizer) -> None:
        """Record the learning rates of an optimizer step."""
        self._unwrapped.stepping(optimizer)
        for group in optimizer.param_groups:
            rate = group.get("lr")
            if group["params"] and isinstance(rate, int | float):  # a tensor may be on a device
                self._rates[self._optimizers.name_of(group["params"][0])[0]] = float(rate)

    def close(self, step: int, *, is_due: bool) -> None:
        """Record the state after a step.

        Args:
            step: step that ended.
            is_due: workers are compared in this step.
        """
        rows, self._rows = self._rows, 0
        dropout, self._dropout = self._dropout, None
        settings, self._settings = self._settings, None
        rates, self._rates = self._rates, {}
        observe = self._job.recorder.notes.observe
        if rows not in (0, self._told_rows):
            self._told_rows = rows
            self._times_told += 1
            rank = torch.distributed.get_rank()
            observe(BatchRows(step=step, rows=rows, rank=rank, location=self._location))
        if not is_due:
            return
        if dropout is not None:
            digest, modules, place = dropout
            observe(DropoutState(step=step, digest=digest, modules=modules, location=place))
        self._unwrapped.close(step)
        buffers, norms = self._buffers()
        if buffers:
            observe(BufferDigests(step=step, digests=buffers, norms=norms))
        if settings is not None:
            observe(msgspec.structs.replace(settings, step=step, rates=rates))

    def _roots(self) -> Iterator[tuple[Root, nn.Module]]:
        for root in self._job.book.roots:
            whole = root.module()
            if whole is not None and root.index in self._optimizers.owned:
                yield root, whole

    def _buffers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return digests of the buffers by module path, and the paths of normalizing modules."""
        found: dict[str, str] = {}
        norms = []
        for _, whole in self._roots():
            copied = {id(part) for outer in whole.modules() if _copies(outer)
                      for part in outer.modules()}  # fmt: skip
            for part in whole.modules():
                kept = {k: b for k, b in part._buffers.items() if b is not None}
                own = [b for k, b in kept.items() if k not in part._non_persistent_buffers_set]
                if own and id(part) not in copied:
                    path = self._job.book.module_name(part)
                    found[path] = f"{arithmetic.fingerprint(own):016x}"
                    norms += [path] if isinstance(part, _NormBase) else []
        return found, tuple(norms)

    def _look_at_settings(self) -> WorkerSettings:
        """Return the settings without step and rates, which are known later."""
        frozen: list[str] = []
        tied: dict[str, str] = {}
        names = xxhash.xxh3_64()
        for root, whole in self._roots():
            first: dict[int, str] = {}
            for path, parameter in unwrapped(whole).named_parameters(remove_duplicate=False):
                name = root.prefix + strip_wrappers(path)
                names.update(f"{name}\n".encode())
                if id(parameter) in first:
                    tied[name] = first[id(parameter)]
                elif not parameter.requires_grad:
                    frozen.append(name)
                first.setdefault(id(parameter), name)
        return WorkerSettings(
            step=0, rates={}, names=names.hexdigest(), frozen=tuple(frozen), tied=tied
        )

    def _before_dropout(self, whole: nn.Module) -> tuple[str, tuple[str, ...], str | None] | None:
        drops = [part for part in whole.modules() if part.training and is_dropout(part)]
        parameter = next(whole.parameters(), None)
        if not drops or parameter is None:
            return None
        state = dict(self._generators.read()).get(str(parameter.device))
        if state is None:
            return None
        modules = tuple(self._job.book.module_name(part) for part in drops[:MAX_PATHS])
        return xxhash.xxh3_64_hexdigest(state.tobytes()), modules, frames.user_location()


def _copies(module: nn.Module) -> bool:
    """Return whether a wrapper copies the buffers of the first worker to all others."""
    return isinstance(module, DistributedDataParallel) and module.broadcast_buffers


def ranks_with_parts(whole: nn.Module) -> list[int]:
    """Return the workers that each hold part of a model's layers.

    Empty if no worker holds only a part, or if parts are gathered before use, as `fully_shard`
    does.
    """
    if any(cls.__name__ == "FSDPModule" for part in whole.modules() for cls in type(part).__mro__):
        return []
    for parameter in whole.parameters():
        placements: Any = getattr(parameter, "placements", ())
        mesh: Any = getattr(parameter, "device_mesh", None)
        if mesh is not None and mesh.ndim == 1 and any(p.is_shard() for p in placements):
            return [int(rank) for rank in mesh.mesh.flatten().tolist()]
    return []
