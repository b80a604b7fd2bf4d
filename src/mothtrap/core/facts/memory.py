"""Facts about memory that a process does not release."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class LossesKept(Fact, frozen=True, kw_only=True, tag=True):
    """The latest `kept` losses are all still in memory with their graphs.

    `location` is the line of the loss; `more`: only this many losses were checked, so earlier
    losses may be in memory, too.
    """

    kept: int
    more: bool = False
    location: str | None = None


class EvaluationGraphsKept(Fact, frozen=True, kw_only=True, tag=True):
    """The graphs of the latest `evaluations` evaluations are all still in memory.

    An evaluation without `torch.no_grad()` builds a graph in each forward pass. `forwards` is the
    number of graphs still in memory, `location` the line of a forward pass in this evaluation.
    """

    evaluations: int
    forwards: int
    location: str | None = None
