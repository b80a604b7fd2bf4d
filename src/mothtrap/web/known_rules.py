"""The rules that are installed, looked up once for the life of the server."""

from __future__ import annotations

from functools import cache

from mothtrap.core.rule import Rule
from mothtrap.monitor.catalogue import explains, rule_classes


@cache
def known_rules() -> dict[str, type[Rule]]:
    """Return every installed rule by code."""
    return {rule.code: rule for rule in rule_classes()}


@cache
def known_causes() -> dict[str, frozenset[str]]:
    """Return for every rule code the codes of the rules whose findings it causes."""
    return explains(known_rules().values())
