"""Values of losses with a margin, such as `triplet_margin_loss`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.core.facts.losses import TargetSample
from mothtrap.core.facts.pairs import MarginLoss
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.describe.paired_losses import pairs
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

EVERY, EVERY_ON_DEVICE = 8, 32
"""One in this many calls is read; on an accelerator, reading waits for it."""
SAMPLES = 25
"""Values that are reported together."""
MAX_LOSSES = 4
PAIRS = ("cosine_embedding_loss", "hinge_embedding_loss")
FUNCTIONS = (
    *(*PAIRS, "margin_ranking_loss"),
    *("triplet_margin_loss", "triplet_margin_with_distance_loss"),
)
"""Losses of several outputs that have a margin."""
LOOKS = 8
"""First calls whose embeddings and labels are compared. Chosen by hand."""
EQUAL = 1e-3
"""Deviation of embeddings, as a share of their size, below which all are equal; by hand."""
_OF_FUNCTIONS = (
    *(nn.CosineEmbeddingLoss, nn.HingeEmbeddingLoss, nn.MarginRankingLoss),
    *(nn.TripletMarginLoss, nn.TripletMarginWithDistanceLoss),
)
"""Modules that call one of the functions."""


@dataclass(slots=True)
class _Loss:
    """The calls of one loss, and the values that are not yet reported."""

    name: str
    margin: float
    calls: int = 0
    alike: int = 0
    equal: int = 0
    unsigned: int = 0
    values: list[float] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)


class MarginObserver:
    """Reads the results of functions with a margin, and of modules with an attribute `margin`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._functions: dict[str, _Loss] = {}
        self._modules: ByIdentity[nn.Module, _Loss] = ByIdentity()

    @property
    def is_used(self) -> bool:
        """Return whether a function with a margin has been called."""
        return bool(self._functions)

    def returned(self, module: nn.Module, value: torch.Tensor) -> None:
        """Handle the result of a loss module, one number, in training."""
        margin = vars(module).get("margin")
        if not isinstance(margin, float | int) or margin <= 0 or type(module) in _OF_FUNCTIONS:
            return
        loss = self._modules.get(module)
        if loss is None:
            if len(self._modules) >= MAX_LOSSES:
                return
            loss = self._modules[module] = _Loss(type(module).__name__, float(margin))
        if self._is_due(loss, value):
            self._add(loss, float(value.detach()), loss.margin)

    def called(
        self, name: str, result: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Handle the result of a function in training."""
        bound = _signature(name).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        loss = self._functions.setdefault(name, _Loss(name, float(given["margin"])))
        if not all(map(is_plain, _tensors(given))):
            return
        with torch.no_grad():
            if loss.calls < LOOKS:
                self._compare(loss, given)
            if self._is_due(loss, result):
                loss.equal += _are_equal(given)
                rows = _rows(given) if given["reduction"] == "sum" else 1
                self._add(loss, float(result.mean()) / rows, _level(name, loss.margin, given))

    def _is_due(self, loss: _Loss, value: torch.Tensor) -> bool:
        loss.calls += 1
        every = EVERY if value.is_cpu else EVERY_ON_DEVICE
        return loss.calls % every == 0 and is_plain(value)

    def _add(self, loss: _Loss, value: float, level: float) -> None:
        loss.values.append(value)
        loss.levels.append(level)
        if len(loss.values) < SAMPLES:
            return
        self._job.recorder.notes.observe(
            MarginLoss(
                step=self._job.grouper.step,
                loss=loss.name,
                margin=loss.margin,
                calls=loss.calls,
                values=tuple(loss.values),
                level=sum(loss.levels) / len(loss.levels),
                equal=loss.equal,
                location=frames.user_location(),
            )
        )
        loss.values.clear()
        loss.levels.clear()
        loss.equal = 0

    def _compare(self, loss: _Loss, given: Mapping[str, Any]) -> None:
        """Compare the embeddings of a call, and read its labels."""
        first, second, *_ = _tensors(given)
        alike = loss.name != "hinge_embedding_loss" and torch.equal(first, second)
        loss.alike += alike and _differs(first)
        target = given.get("target")
        loss.unsigned += target is not None and bool((target == 0).any() and (target >= 0).all())
        if loss.calls + 1 < LOOKS:
            return
        step, place = self._job.grouper.step, frames.user_location()
        observe = self._job.recorder.notes.observe
        if loss.alike == LOOKS:
            observe(EqualViews(step=step, steps=LOOKS, loss=loss.name, location=place))
        if loss.unsigned == LOOKS and target is not None:
            sample = TargetSample(
                dtype=type_name(target.dtype),
                count=target.numel(),
                least=float(target.min()),
                greatest=float(target.max()),
            )
            observe(pairs(loss.name, tuple(target.shape), sample, step=step, location=place))


@functools.cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(functional, name))


def _tensors(given: Mapping[str, Any]) -> list[torch.Tensor]:
    return [one for one in given.values() if isinstance(one, torch.Tensor)]


def _rows(given: Mapping[str, Any]) -> int:
    tensors = _tensors(given)
    return max(1, max(len(one) if one.ndim else 1 for one in tensors))


def _differs(rows: torch.Tensor) -> bool:
    return rows.ndim > 0 and bool((rows != rows[:1]).any())


def _are_equal(given: Mapping[str, Any]) -> bool:
    """Return whether the embeddings of all rows are equal, up to a small part of their size."""
    tensors = [one for one in _tensors(given) if one.ndim > 1]
    if not tensors or any(one.shape[1:] != tensors[0].shape[1:] for one in tensors):
        return False
    rows = torch.cat(tensors).float()
    deviation = (rows - rows.mean(0)).square().mean().sqrt()
    return len(rows) > 2 and bool(deviation <= EQUAL * rows.square().mean().sqrt())


def _level(name: str, margin: float, given: Mapping[str, Any]) -> float:
    """Return the least loss of a batch in which all distances are equal."""
    if name not in PAIRS:
        return margin
    target = given["target"]
    fewer = min(float((target == sign).float().mean()) for sign in (1, -1))
    return fewer * (margin if name == "hinge_embedding_loss" else 1 - margin)
