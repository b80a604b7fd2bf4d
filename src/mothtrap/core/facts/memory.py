"""Facts about memory that a process does not release."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class LossesKept(Fact, frozen=True, kw_only=True, tag=True):
    """The latest `kept` losses are all still held together with their graphs.

    `location` is the line of the loss; `more` says that as many were looked at, so that
    earlier ones may be held too.
    """

    kept: int
    more: bool = False
    location: str | None = None


class EvaluationGraphsKept(Fact, frozen=True, kw_only=True, tag=True):
    """Graphs of the latest `evaluations` evaluations before this one are all still held.

    An evaluation without `torch.no_grad()` builds a graph at each forward. `forwards` counts those
    that are held, `location` is the line of a forward in this evaluation.
    """

    evaluations: int
    forwards: int
    location: str | None = None
