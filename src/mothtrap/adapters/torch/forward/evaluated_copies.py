"""Weights of the copies of a trained model that evaluations and targets use."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.evaluations import CopyLag, EvaluatedCopy
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_LOOKS, EACH_STEP, SHARE = 96, 8, 8
"""Digests that are made, those that may come in successive steps, and the divisor of the steps so
far that gives the steps between two later ones. A target network runs in every step."""
MAX_COPIES, MAX_INPUTS = 8, 4
"""Maximum number of copies, and of inputs of trained models that are compared in a step."""
ALONG = 0.3
"""Cosine between the movements of a copy and of its model, at least; chosen by hand: a copy that
follows a model moves toward it."""
SAMPLED, SAMPLED_VALUES = 4, 1024
"""Number of parameters, and of values of each, by which the movement of a copy is measured."""


@dataclass(slots=True)
class _Copy:
    """Inspections of a copy: its latest input, and how often a trained model got the same data.

    `ran` is the number of steps in which it ran, and `last` the last of them.
    """

    looks: int = 0
    due: int = 0
    given: OwnRef[torch.Tensor] | None = None
    is_same: bool | None = None
    same: int = 0
    apart: int = 0
    first: torch.Tensor | None = None
    began: int = 0
    last: int = -1
    ran: int = 0


class EvaluatedCopies:
    """Records a digest of the weights of a copy when it runs without a graph.

    Attributes:
        compares: a copy was called, so the inputs of trained models are compared with its inputs.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.compares = False
        self._copies: ByIdentity[nn.Module, _Copy] = ByIdentity()
        self._step = -1
        self._trained: list[OwnRef[torch.Tensor]] = []
        self._lags: dict[str, CopyLag] = {}
        self._model: weakref.ref[nn.Module] | None = None
        self._open: list[_Copy] = []

    def called(self, module: nn.Module, given: Sequence[Any] = ()) -> None:
        """Handle a call to a copy; the first one after each step may be recorded."""
        step = self._begin()
        copy = self._copies.get(module)
        if copy is None:
            if len(self._copies) >= MAX_COPIES:
                return
            copy = self._copies[module] = _Copy()
            self.compares = True
        copy.ran += step != copy.last
        copy.last = step
        if step < copy.due or copy.looks >= MAX_LOOKS:
            return
        copy.looks += 1
        copy.due = step + (1 if copy.looks < EACH_STEP else max(1, step // SHARE))
        if copy.is_same is not None:
            copy.same += copy.is_same
            copy.apart += not copy.is_same
        digest = f"{arithmetic.fingerprint(list(module.parameters())):016x}"
        self._job.recorder.notes.observe(
            EvaluatedCopy(
                step=step,
                module=self._job.book.module_name(module),
                digest=digest,
                same=copy.same,
                apart=copy.apart,
                initial_norms=_initial_norms(module),
                location=frames.user_location(),
            )
        )
        self._measure(copy, module, step)
        tensor = _first(given)
        copy.given, copy.is_same = (OwnRef(tensor) if tensor is not None else None), None
        self._open.append(copy)
        for reference in self._trained:
            _compare(copy, reference())

    def trained(self, module: nn.Module, given: Sequence[Any]) -> None:
        """Handle a call of a model that is trained, with `given`."""
        self._begin()
        if self._model is None or self._model() is not module:
            self._model = weakref.ref(module)
        tensor = _first(given)
        if tensor is None or len(self._trained) >= MAX_INPUTS:
            return
        self._trained.append(OwnRef(tensor))
        for copy in self._open:
            _compare(copy, tensor)

    def ended(self) -> None:
        """Report how far each copy has followed the trained model."""
        for lag in self._lags.values():
            self._job.recorder.notes.observe(lag)

    def _measure(self, copy: _Copy, module: nn.Module, step: int) -> None:
        """Compare the weights of a copy with its first ones, and with those of its model."""
        model = self._model() if self._model is not None else None
        if copy.first is None:
            copy.first, copy.began = _sampled(module), step
            return
        if model is None or model is module or not _are_alike(model, module):
            return
        now, trained = _sampled(module), _sampled(model)
        if now is None or trained is None or not len(now) == len(trained) == len(copy.first):
            return
        own, wanted = now - copy.first, trained - copy.first
        moved, apart = float(own.norm()), float(wanted.norm())
        if not apart > 0 or float(own @ wanted) < ALONG * moved * apart:
            return  # another model of the same shape
        name = self._job.book.module_name(module)
        self._lags[name] = CopyLag(
            step=step,
            module=name,
            moved=moved / apart,
            steps=step - copy.began,
            looks=copy.looks,
            ran=copy.ran,
            location=frames.user_location(),
        )

    def _begin(self) -> int:
        """Forget the inputs of the previous step; return the number of steps so far."""
        step = self._job.grouper.steps_applied
        if step != self._step:
            self._step = step
            self._trained.clear()
            self._open.clear()
        return step


def _are_alike(one: nn.Module, other: nn.Module) -> bool:
    """Return whether two modules have parameters of the same shapes in the same order."""
    return [p.shape for p in one.parameters()] == [p.shape for p in other.parameters()]


def _sampled(module: nn.Module) -> torch.Tensor | None:
    """Return some weights of a module, on the host; None if they cannot be read."""
    parameters = [p for p in module.parameters() if p.is_floating_point()]
    largest = sorted(parameters, key=lambda p: -p.numel())[:SAMPLED]  # the first of equal ones
    if not largest or not all(map(is_plain, largest)):
        return None
    with torch.no_grad():
        some = [p.detach().reshape(-1)[:SAMPLED_VALUES].float().cpu() for p in largest]
        return torch.cat(some)


def _initial_norms(module: nn.Module) -> int:
    """Return the number of batch norms if all of them evaluate with initial averages, else 0."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    return len(norms) if all(map(_is_initial, norms)) else 0


def _is_initial(norm: nn.modules.batchnorm._BatchNorm) -> bool:
    mean, variance = norm.running_mean, norm.running_var
    if norm.training or mean is None or variance is None or not is_plain(mean):
        return False
    with torch.no_grad():
        return not bool(mean.any()) and bool((variance == 1).all())


def _first(given: Sequence[Any]) -> torch.Tensor | None:
    tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
    return tensor if tensor is not None and is_plain(tensor) else None


def _compare(copy: _Copy, other: torch.Tensor | None) -> None:
    """Compare the input of a copy with that of a trained model in the same step."""
    given = copy.given() if copy.given is not None else None
    if given is None or other is None or given.shape != other.shape:
        return
    if given.device != other.device or given.dtype != other.dtype:
        return
    with torch.no_grad():
        copy.is_same = bool(copy.is_same) or torch.equal(given, other)
