"""Observers of a job: each collects one fact, and receives the events for which it has a method.

An observer is built only if its fact is needed. In a light step, only observers that need each
step receive events. Observers are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.core.fact import Fact
from mothtrap.tracing.jobs.adapter_job import Part

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

EVENTS = ("loss_began", "stepping", "applied", "stepped", "closed")
SERVICES = ("step_begins", "gradients_final", "step_ends", "closing")
"""Events that go to services, which always exist; see `Observers.serve`."""


class BackwardRoot(NamedTuple):
    """The starting value of a backward pass.

    Attributes:
        site: call site of the backward pass.
        place: the line of the loss.
        root: the number, with its graph.
        recomputes: segments of the graph are recomputed when their saved tensors are read.
    """

    site: str
    place: str | None
    root: torch.Tensor
    recomputes: bool


@uncompiled
class Observers:
    """Lists of receivers for each event, determined when a step begins.

    An observer may have the methods

    - `loss_began(BackwardRoot)`: the outermost backward pass begins with one number;
    - `stepping(Optimizer)`: an optimizer is about to step;
    - `applied(Optimizer)`: it has stepped, and the weights have changed;
    - `stepped(Optimizer)`: it has stepped; its gradients still exist;
    - `closed(int)`: the step with this number is over.

    Args:
        job: determines which facts are needed.

    Attributes:
        members: all members, in the order of registration.
        full: functions to call in a full step, by event, in the order of registration.
        light: the same for a light step.
        told: whichever of the two applies to the step in progress.
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
        """Create an observer, and register it for its events.

        Args:
            part: name of the part; a failure ends everything with this name.
            make: creates the observer.
            facts: facts that it finds; if none of them is needed, it is not created. Empty: it is
                always needed.
            each_step: also call it in light steps.
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
        """From now on, report only closed steps to the observers and services of some parts."""
        for event in {*EVENTS, *SERVICES} - {"closing"}:
            for table in (self.full, self.light):
                table[event] = [part for part in table[event] if part[0] not in parts]

    def serve(self, event: str, part: str, act: Callable[..., None], *, light: bool = True) -> None:
        """Register a service for an event; not `light`: only in full steps."""
        self.full[event].append((part, act))
        if light:
            self.light[event].append((part, act))
