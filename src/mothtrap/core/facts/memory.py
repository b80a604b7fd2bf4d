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
