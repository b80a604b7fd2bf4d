"""Observers of a job: each learns one thing, and is told of the events that it has a method for.

In a light step only those are told that need each step. No observer knows another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mothtrap.adapters.torch.uncompiled import uncompiled

EVENTS = ("loss_began", "stepping", "applied", "stepped", "closed")


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
        contain_part: runs what can fail alone.

    Attributes:
        members: all that were added, in this order.
    """

    def __init__(self, contain_part: Callable[..., None]) -> None:
        self._contain_part = contain_part
        self.members: list[object] = []
        self._told: dict[tuple[str, bool], list[tuple[str, Callable[[Any], None]]]] = {
            (event, light): [] for event in EVENTS for light in (False, True)
        }

    def add(self, part: str, *observers: object, each_step: bool = False) -> None:
        """Tell observers of what comes.

        Args:
            part: a failure of one of them ends it for all that bear the same name.
            observers: told in this order, after those that are there.
            each_step: also in light steps.
        """
        for observer in observers:
            self.members.append(observer)
            for event in EVENTS:
                method = getattr(observer, event, None)
                if method is not None:
                    self._told[event, False].append((part, method))
                    if each_step:
                        self._told[event, True].append((part, method))

    def tell(self, event: str, about: Any, *, light: bool) -> None:
        """Tell of an event, in the order in which observers were added."""
        for part, method in self._told[event, light]:
            self._contain_part(part, method, about)
