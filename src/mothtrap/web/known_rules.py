"""The installed rules and probes, looked up once in the lifetime of the server."""

from __future__ import annotations

from functools import cache

from mothtrap.core.documented import Documented
from mothtrap.monitor.catalogue import documented, explains


@cache
def known_rules() -> dict[str, type[Documented]]:
    """Return every installed rule and probe by code."""
    return {rule.code: rule for rule in documented()}


@cache
def known_causes() -> dict[str, frozenset[str]]:
    """Return, for each rule code, the codes of the rules whose findings it causes."""
    return explains()
