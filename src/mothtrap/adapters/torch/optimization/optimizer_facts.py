"""Settings of optimizers, and where they were constructed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.optimization.hand_steps import ByHand
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames
from mothtrap.tracing.steps.takeovers import Takeovers

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

LOOKED_AT_EVERY = 50
"""Steps of the optimizer between reads of its settings, which rarely change; chosen by hand."""
SECOND_MOMENTS = ("exp_avg_sq", "square_avg", "sum", "exp_inf", "nu", "v")
COMPENSATIONS = ("kahan_comp", "compensation", "comp", "shift", "master_param", "master_params")
"""Names under which optimizers store the rounding errors of updates."""

DECOUPLED = ("AdamW", "Lion", "Muon")
"""Optimizers whose definition includes decoupled weight decay."""


class OptimizerFactsObserver:
    """Reports every optimizer once, and again when its settings change."""

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        self._places: ByIdentity[Optimizer, str | None] = ByIdentity()
        self._reported: ByIdentity[Optimizer, OptimizerFacts] = ByIdentity()
        self._takeovers = Takeovers(optimizers.steps_of)

    def constructed(self, optimizer: Optimizer) -> None:
        """Record the line on which an optimizer is created."""
        self._places[optimizer] = frames.location(frames.user_frame(skip_init_of=optimizer))

    def applied(self, optimizer: Optimizer) -> None:
        """Inspect an optimizer after a step, when its state exists."""
        if isinstance(optimizer, ByHand):
            return
        told = self._reported.get(optimizer)
        if told is not None and self._optimizers.steps_of(optimizer) % LOOKED_AT_EVERY:
            return
        at = frames.user_location()
        takes_over = told is None and self._takes_over(optimizer)
        seen = msgspec.structs.replace(self._facts(optimizer), stepped_at=at, takes_over=takes_over)
        if told is None or _settings(told) != _settings(seen):
            self._reported[optimizer] = seen
            self._job.recorder.notes.observe(seen)

    def _takes_over(self, optimizer: Optimizer) -> bool:
        first = next(iter(parameters(optimizer)), None)
        return first is not None and self._takeovers.begins(optimizer, first)

    def _facts(self, optimizer: Optimizer) -> OptimizerFacts:
        groups = optimizer.param_groups
        own = list(parameters(optimizer))
        state: Mapping[str, Any] = next(
            (optimizer.state[p] for p in own if p in optimizer.state), {}
        )
        moments = [state[name] for name in SECOND_MOMENTS if name in state]
        moments = [moment for moment in moments if isinstance(moment, torch.Tensor)]
        betas = [group["betas"][0] for group in groups if _is_pair(group.get("betas"))]
        kind = type(optimizer).__name__
        return OptimizerFacts(
            step=self._job.grouper.step,
            optimizer=self._optimizers.add(optimizer).name,
            kind=kind,
            learning_rate=_largest(group.get("lr") for group in groups),
            weight_decay=_largest(group.get("weight_decay") for group in groups) or 0.0,
            decoupled=_is_decoupled(kind, groups),
            momentum=_largest([group.get("momentum") for group in groups] + betas) or 0.0,
            epsilon=_largest(group.get("eps") for group in groups),
            second_moments=bool(moments),
            state_dtype=type_name(moments[0].dtype) if moments else "",
            compensated=any(name in COMPENSATIONS for name in state),
            fused=any(bool(group.get("fused")) for group in groups),
            maximizes=any(bool(group.get("maximize")) for group in groups),
            elements=sum(parameter.numel() for parameter in own),
            weight_dtypes=tuple(dict.fromkeys(type_name(weight.dtype) for weight in own)),
            location=self._places.get(optimizer),
        )


def _settings(facts: OptimizerFacts) -> OptimizerFacts:
    """Return the settings except those that schedules change or only the first step reports."""
    return msgspec.structs.replace(
        facts, step=0, learning_rate=None, momentum=0.0, takes_over=False
    )


def _largest(values: Iterable[Any]) -> float | None:
    numbers = [float(v) for v in values if isinstance(v, int | float) or _is_scalar(v)]
    return max(numbers, default=None)


def _is_scalar(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0


def _is_decoupled(kind: str, groups: list[dict[str, Any]]) -> bool:
    told = any(bool(group.get("decoupled_weight_decay")) for group in groups)
    return told or kind in DECOUPLED or kind.endswith("W")
