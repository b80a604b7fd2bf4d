"""Facts about pipelines of data that are built of transformations."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class SplitReshuffled(Fact, frozen=True, kw_only=True, tag=True):
    """Training and evaluation are different parts of one shuffle that reshuffles in each pass.

    `source` says which evaluation.
    """

    source: str
    location: str | None = None


class ShuffledApart(Fact, frozen=True, kw_only=True, tag=True):
    """Inputs and labels of training are shuffled in different orders, and then paired."""

    location: str | None = None
