"""Steps of scripts that update their parameters without an optimizer.

A backward pass is such a step if it reached a parameter that no optimizer has, and the parameter
has changed when the next forward pass of a model (or the next backward pass) begins. Its version,
its memory or a few of its bytes show this, since `p.data` does not change the version. Three
consecutive backward passes of this kind are required, so that a model that is loaded, initialized
late or clipped once does not count as stepping. From then on, a stand-in optimizer has the
parameters. Its step begins at the end of the backward pass, when the gradients still exist, and
ends when the change is checked. A backward pass without a change is a skipped step.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.graph import leaves
from mothtrap.adapters.torch.job.naming import Root
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.capture.grouper import GradientsZeroed
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.tracing.jobs.identity import OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

ESTABLISHED = 3
"""Consecutive backward passes after which a parameter has changed. Chosen by hand."""
FRUITLESS = 32
"""Consecutive backward passes without a step after which inspection stops. Chosen by hand."""
GLIMPSES = 4
"""Number of first and last parameters of a backward pass that are inspected. Chosen by hand."""
ELEMENTS = 16
"""Number of compared elements of a parameter."""
DIRECTIONS = 8
"""Number of first steps whose direction is reported. Chosen by hand."""


class ByHand(Optimizer):
    """Represents the script's own update; applies nothing."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Leave the parameters to the script."""


@dataclass(frozen=True, slots=True)
class _Glimpse:
    """Enough of a parameter to detect that it was changed."""

    parameter: weakref.ref[torch.Tensor]
    version: int
    pointer: int
    values_N: torch.Tensor
    gradient_N: torch.Tensor

    @classmethod
    def of(cls, parameter: torch.Tensor) -> _Glimpse:
        pointer, values_N = parameter.data_ptr(), _elements(parameter)
        gradient = parameter.grad
        own = gradient is not None and is_plain(gradient) and gradient.shape == parameter.shape
        gradient_N = _elements(gradient) if gradient is not None and own else values_N[:0]
        return cls(OwnRef(parameter), parameter._version, pointer, values_N, gradient_N)

    def has_changed(self) -> bool:
        """Return whether the parameter has changed."""
        now = self.parameter()
        if now is None:
            return False
        if now._version != self.version or now.data_ptr() != self.pointer:
            return True
        before_N, now_N = self.values_N, _elements(now)
        return not torch.equal(now_N.view(torch.uint8), before_N.view(torch.uint8))

    def direction(self) -> float | None:
        """Return the cosine of the change and the gradient; None if one of them is 0."""
        now = self.parameter()
        if now is None:
            return None
        change_N = _elements(now).double() - self.values_N.double()
        gradient_N = self.gradient_N.double()
        if change_N.shape != gradient_N.shape:
            return None
        lengths = float(change_N.norm() * gradient_N.norm())
        return float(change_N @ gradient_N) / lengths if 0 < lengths < math.inf else None


class HandSteps:
    """Recognizes updates without an optimizer, and reports them as steps.

    Args:
        job: the job to which the steps belong.
        optimizers: optimizers of the job, which own parameters.
        began: called at the end of a backward pass with the stand-in whose step it may be.
        ended: called with the stand-in, and whether a parameter has changed since.

    Attributes:
        stand_in: contains the parameters once it is established that the script updates them.
        looks: False once no more such steps are expected; nothing is inspected then.
        glimpses: sampled bytes of parameters that the last backward pass reached.
    """

    def __init__(
        self,
        job: Job,
        optimizers: OptimizerObserver,
        began: Callable[[Optimizer], None],
        ended: Callable[[Optimizer, bool], None],
    ) -> None:
        self._job, self._optimizers = job, optimizers
        self._began, self._ended = began, ended
        self.looks = True
        self._called: dict[int, Root] = {}
        self._leaves: list[torch.Tensor] = []
        self.glimpses: list[_Glimpse] = []
        self.stand_in: ByHand | None = None
        self._directions = DIRECTIONS
        self._updated_at: str | None = None
        self._backwards = self._changes = self._fruitless = 0
        self._each = 1

    def root_called(self, root: Root, trains: bool) -> None:
        """Handle a model call, which shows whether a step followed the last backward pass."""
        if self.looks:
            self.settle()
            if trains and self.stand_in is None and not self._optimizers.owns_root(root):
                self._called[root.index] = root

    def backward_began(self, tensors: Any) -> None:
        """Handle the start of an outermost backward pass outside any optimizer step."""
        if not self.looks:
            return
        self.settle()
        nothing = not self._called and not self._optimizers.alive()
        if self.stand_in is None and nothing and isinstance(tensors, torch.Tensor):
            self._leaves = list(leaves(tensors))

    def backward_ended(self) -> None:
        """Handle the end of the backward pass, before gradients or weights change."""
        if not self.looks:
            return
        self._backwards += 1
        if self.stand_in is None:
            self.glimpses = [_Glimpse.of(p) for p in _some(self._reached())]
        elif self._is_taken_over(self.stand_in):
            self._give_up()
        elif self._backwards >= self._each:
            if self._directions == DIRECTIONS:
                frame = frames.user_frame()
                self._updated_at = frames.updated_at(frame) if frame is not None else None
            own = self.stand_in.param_groups[0]["params"]
            reached = [p for p in own if p.grad is not None and is_plain(p)]
            self.glimpses = [_Glimpse.of(p) for p in _some(reached)]
            self._began(self.stand_in)

    def settle(self) -> None:
        """Determine whether a step followed the last backward pass."""
        glimpses, self.glimpses = self.glimpses, []
        if not glimpses:
            return
        changed = any(glimpse.has_changed() for glimpse in glimpses)
        if self.stand_in is not None:
            self._fruitless = 0 if changed else self._fruitless + 1
            self._backwards = 0
            if changed and self._directions:
                self._directions -= 1
                self._report_direction(glimpses, self.stand_in)
            self._ended(self.stand_in, changed)
        elif changed and not self._job.grouper.between_steps:  # otherwise an optimizer has stepped
            self._fruitless = 0
            self._changes += 1
            self._each, self._backwards = self._backwards, 0
            self._establish()
        else:
            self._fruitless += 1
            self._changes = self._changes if self._backwards < self._each else 0
        if self._fruitless >= FRUITLESS:
            self._give_up()

    def _report_direction(self, glimpses: list[_Glimpse], stand_in: ByHand) -> None:
        seen: dict[str, float] = {}
        for glimpse in glimpses:
            parameter, cosine = glimpse.parameter(), glimpse.direction()
            if parameter is not None and cosine is not None:
                seen[self._optimizers.name_of(parameter)[0]] = cosine
        self._job.recorder.notes.observe(
            UpdateDirection(
                step=self._job.grouper.step,
                optimizer=self._optimizers.add(stand_in).name,
                layers=tuple(seen),
                cosines=tuple(seen.values()),
                location=self._updated_at,
            )
        )

    def _establish(self) -> None:
        if self._changes < ESTABLISHED:
            return
        held = self._reached(also_unreached=True)
        if held:
            self.stand_in = ByHand(held)
            # Earlier losses belong to steps that were not recognized as steps.
            name = self._optimizers.add(self.stand_in).name
            self._job.feed(GradientsZeroed(name))
        self._called, self._leaves = {}, []

    def _reached(self, *, also_unreached: bool = False) -> list[torch.Tensor]:
        """Return parameters without an owner in trained models, or in the graph of the loss."""
        found: list[torch.Tensor] = []
        for root in self._called.values():
            module = root.module()
            found += module.parameters() if module is not None else ()
        return [
            p
            for p in found or self._leaves
            if p.requires_grad
            and (p.grad is not None or also_unreached)
            and not nn.parameter.is_lazy(p)
            and is_plain(p)
            and self._optimizers.owner(p) is None
        ]

    def _is_taken_over(self, stand_in: ByHand) -> bool:
        """Return whether an optimizer has received the parameters in the meantime."""
        first = stand_in.param_groups[0]["params"][0]
        return self._optimizers.owner(first) is not stand_in

    def _give_up(self) -> None:
        self.looks, self.stand_in = False, None
        self._called, self._leaves, self.glimpses = {}, [], []


def _some(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    if len(parameters) <= GLIMPSES:
        return parameters
    return [*parameters[: GLIMPSES // 2], *parameters[-(GLIMPSES // 2) :]]


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return some elements, spread evenly over a tensor, shape (N,)."""
    values = tensor.detach()
    if not values.is_contiguous():
        return values.new_empty(0)  # only version and memory can be compared
    flat = values.view(-1)
    return flat[:: max(1, flat.numel() // ELEMENTS)].clone()
