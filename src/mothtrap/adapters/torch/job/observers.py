"""Observers of a job: each learns one thing, and is told of the events that it has a method for.

One is built only where a fact of its is needed. In a light step only those are told that need each
step. No observer knows another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.core.fact import Fact

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

EVENTS = ("loss_began", "stepping", "applied", "stepped", "closed")
_Told = list[tuple[str, Callable[[Any], None]]]


@dataclass(frozen=True, slots=True, eq=False)
class BackwardRoot:
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
    """Hands events on.

    An observer may have the methods

    - `loss_began(BackwardRoot)`: the outermost backward begins with one number;
    - `stepping(Optimizer)`: an optimizer is about to step;
    - `applied(Optimizer)`: it has, and the weights are other ones;
    - `stepped(Optimizer)`: it has; its gradients are still there;
    - `closed(int)`: a step, of which the number is given, is over.

    Args:
        job: contains what can fail alone, and says which steps are light.

    Attributes:
        members: all that were added, in this order.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.members: list[object] = []
        self._full: dict[str, _Told] = {event: [] for event in EVENTS}
        self._light: dict[str, _Told] = {event: [] for event in EVENTS}

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
                self._full[event].append((part, method))
                if each_step:
                    self._light[event].append((part, method))

    def tell(self, event: str, about: Any) -> None:
        """Tell of an event, in the order in which observers were added."""
        for part, method in (self._light if self._job.light else self._full)[event]:
            self._job.contain_part(part, method, about)
