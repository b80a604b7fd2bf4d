"""Facts about data pipelines that are built from transformations."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class SplitReshuffled(Fact, frozen=True, kw_only=True, tag=True):
    """Training and evaluation use different parts of a shuffle that is repeated in each pass.

    `source` identifies the evaluation.
    """

    source: str
    location: str | None = None


class ShuffledApart(Fact, frozen=True, kw_only=True, tag=True):
    """Inputs and labels for training are shuffled in different orders, then paired."""

    location: str | None = None
