"""Observers of a job: each learns one thing, and is told of the events that it has a method for.

One is built only where a fact of its is needed. In a light step only those are told that need each
step. No observer knows another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.core.fact import Fact
from mothtrap.tracing.adapter_job import Part

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

EVENTS = ("loss_began", "stepping", "applied", "stepped", "closed")
SERVICES = ("step_begins", "gradients_final", "step_ends", "closing")
"""Events of which services are told that are there in any case, see `Observers.serve`."""


class BackwardRoot(NamedTuple):
    """The number that a backward begins with.

    Attributes:
        site: where the backward is called.
        place: the line of the loss.
        root: the number, with its graph.
        recomputes: segments of the graph are run again by reading what they saved.
    """

    site: str
    place: str | None
    root: torch.Tensor
    recomputes: bool


@uncompiled
class Observers:
    """Lists of those that are told of each event, decided when a step begins.

    An observer may have the methods

    - `loss_began(BackwardRoot)`: the outermost backward begins with one number;
    - `stepping(Optimizer)`: an optimizer is about to step;
    - `applied(Optimizer)`: it has, and the weights are other ones;
    - `stepped(Optimizer)`: it has; its gradients are still there;
    - `closed(int)`: a step, of which the number is given, is over.

    Args:
        job: says which facts are needed.

    Attributes:
        members: all that were added, in this order.
        full: by event what is called in a full step, in the order in which it was added.
        light: the same of a light one.
        told: that of both which is of the step in progress.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.members: list[object] = []
        self.full: dict[str, list[Part]] = {event: [] for event in (*EVENTS, *SERVICES)}
        self.light: dict[str, list[Part]] = {event: [] for event in (*EVENTS, *SERVICES)}
        self.told = self.full

    def add(
        self,
        part: str,
        make: Callable[[], object],
        *facts: type[Fact],
        each_step: bool = False,
    ) -> None:
        """Build an observer, and tell it of what comes.

        Args:
            part: a failure of it ends all that bear the same name.
            make: returns it.
            facts: those that it finds; where none of them is needed it is not built. None given:
                it is needed in any case.
            each_step: it is also told of light steps.
        """
        if facts and self._job.recorder.looks.needed.isdisjoint(facts):
            return
        observer = make()
        self.members.append(observer)
        for event in EVENTS:
            method = getattr(observer, event, None)
            if method is not None:
                self.full[event].append((part, method))
                if each_step:
                    self.light[event].append((part, method))

    def drop(self, parts: frozenset[str]) -> None:
        """Report only closed steps to the observers and services of some parts from now on."""
        for event in {*EVENTS, *SERVICES} - {"closing"}:
            for table in (self.full, self.light):
                table[event] = [part for part in table[event] if part[0] not in parts]

    def serve(self, event: str, part: str, act: Callable[..., None], *, light: bool = True) -> None:
        """Tell a service of an event; not `light`: only of full steps."""
        self.full[event].append((part, act))
        if light:
            self.light[event].append((part, act))
