"""Parameters that no wrapper keeps equal across workers: their values, gradients, and exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch
import xxhash
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.replicas import UnwrappedDigests
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.jobs.identity import OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

VALUES, STEPS = 8, 128
"""Number of values of a parameter that are kept at the beginning of a step, and of such steps."""


class Optimizers(Protocol):
    """The live optimizers of a job, with their parameters."""

    @property
    def owned(self) -> Collection[int]:
        """Return the identities of the roots with optimizer parameters."""

    def held(self) -> Iterator[torch.Tensor]:
        """Return the distinct parameters of an optimizer."""

    def name_of(self, parameter: torch.Tensor) -> tuple[str, str]:
        """Return a parameter's qualified name and its module's path."""


class UnwrappedStateObserver:
    """Records the state that shows whether workers without a wrapper train the same model.

    Args:
        job: The job that trains.
        optimizers: Its optimizers.
        scope: returns the scope of a parameter; empty if no wrapper contains it.
    """

    def __init__(
        self, job: Job, optimizers: Optimizers, scope: Callable[[torch.Tensor], str]
    ) -> None:
        self._job, self._optimizers, self._scope = job, optimizers, scope
        self._initial: dict[str, str] | None = None
        self._calls_before: int | None = None
        self._calls: int | None = None
        self._gradients: list[str] = []
        self._location: str | None = None
        self._chosen: OwnRef[torch.Tensor] | None = None
        self._begun: dict[int, torch.Tensor] = {}

    def called(self, step: int, *, is_due: bool) -> None:
        """Handle a training forward of a model.

        Args:
            step: number of the step.
            is_due: workers are compared in this step.
        """
        if self._initial is None:
            self._initial = self._digests()
            own = (p for p in self._optimizers.held() if self._is_own(p))
            smallest = min(own, key=lambda p: (p.numel() < VALUES, p.numel()), default=None)
            self._chosen = OwnRef(smallest) if smallest is not None else None
        parameter = self._chosen() if self._chosen is not None else None
        if parameter is None or step in self._begun:
            return
        if is_due:
            self._location = frames.user_location()
            self._calls_before, self._calls, self._gradients = _collectives(), None, []
        if len(self._begun) < STEPS:
            self._begun[step] = parameter.detach().view(-1)[:VALUES].clone()

    def stepping(self, optimizer: Optimizer) -> None:
        """Handle the call of an optimizer, in a step in which workers are compared."""
        own = [p for group in optimizer.param_groups for p in group["params"] if self._is_own(p)]
        given = [p.grad for p in own if p.grad is not None and is_plain(p.grad)]
        if given:
            self._gradients.append(f"{arithmetic.fingerprint(given):016x}")
        now = _collectives()
        if now is not None and self._calls_before is not None:
            self._calls = now - self._calls_before

    def close(self, step: int) -> None:
        """Record the state after a step in which workers are compared."""
        calls, self._calls, self._calls_before = self._calls, None, None
        gradients, self._gradients = self._gradients, []
        begun, self._begun = self._begun, {}
        digests = self._digests()
        if not digests:
            return
        initial, self._initial = self._initial or {}, {}
        values = as_array(torch.stack([*begun.values()]).double().cpu()) if begun else ()
        self._job.recorder.notes.observe(
            UnwrappedDigests(
                step=step,
                digests=digests,
                initial=initial,
                gradients=" ".join(gradients),
                collectives=calls,
                begun={
                    at: xxhash.xxh3_64_hexdigest(row.tobytes())
                    for at, row in zip(begun, values, strict=True)
                },
                location=self._location,
            )
        )

    def _is_own(self, parameter: torch.Tensor) -> bool:
        """Return whether the values of a parameter can be read, and no wrapper contains it."""
        if not (is_plain(parameter) and parameter.is_contiguous() and parameter.numel()):
            return False
        trains = parameter.requires_grad and parameter.is_floating_point()
        return trains and not self._scope(parameter)

    def _digests(self) -> dict[str, str]:
        """Return digests of the parameters without a scope, by module path."""
        parts: dict[str, list[torch.Tensor]] = {}
        for parameter in self._optimizers.held():
            if not self._scope(parameter):
                name, path = self._optimizers.name_of(parameter)
                parts.setdefault(path or name, []).append(parameter)
        return {key: f"{arithmetic.fingerprint(own):016x}" for key, own in parts.items()}


def _collectives() -> int | None:
    """Return the number of collective operations of this process so far; None if unknown."""
    groups: Any = torch.distributed.distributed_c10d._world.pg_map
    try:
        return sum(int(group._get_sequence_number_for_group()) for group in groups)
    except (AttributeError, RuntimeError):  # not every backend counts
        return None
