"""Modules that no gradient reaches, shared by the rules on them."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.window import Window


def newest_modules(window: Window) -> list[UnreachedModule]:
    """Return the latest report on each module that is still not reached."""
    newest = {seen.module: seen for seen in window.seen(UnreachedModule)}
    return [seen for seen in newest.values() if seen.own_steps > 0]


def total_parameters(modules: Sequence[UnreachedModule]) -> int:
    """Return how many parameters some modules have."""
    return sum(len(seen.parameters) for seen in modules)
