"""Rules that are installed, found through the registry, and the effects that they declare."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache

from mothtrap.core import registry
from mothtrap.core.errors import PluginError, UnknownNameError
from mothtrap.core.rule import Rule

PACKAGE = "mothtrap.rules"


def installed() -> tuple[tuple[type[Rule], ...], tuple[PluginError, ...]]:
    """Return all rules by code, and an error for each unusable rule of another package."""
    known = registry.parts(PACKAGE)
    found = dict(_own(tuple(part for part in known if part.entry_point is None)))
    unusable = []
    for part in known:
        if part.entry_point is None:
            continue
        try:
            rule = _checked(part)
            if rule.code in found:
                raise part.fault(
                    f"the code {rule.code} is already used by the rule {found[rule.code].name()}"
                )
        except PluginError as err:
            unusable.append(err)
        else:
            found[rule.code] = rule
    return tuple(found[code] for code in sorted(found)), tuple(unusable)


@lru_cache(maxsize=4)
def _own(known: tuple[registry.Part, ...]) -> dict[str, type[Rule]]:
    """Return the rules of this package by code; importing and inspecting them takes 5 ms."""
    rules = [registry.only_class(part.load(), Rule, "rule") for part in known]
    return {rule.code: rule for rule in rules}


def _checked(part: registry.Part) -> type[Rule]:
    """Return the rule of a part of another distribution, after checking that it is a valid rule."""
    module = part.load()
    try:
        rule = registry.only_class(module, Rule, "rule")
        made = rule()
    except (UnknownNameError, TypeError) as err:
        raise part.fault(str(err)) from err
    code: object = getattr(made, "code", None)
    if not isinstance(code, str) or not hasattr(rule, "__dataclass_fields__"):
        raise part.fault(f"{rule.__name__} must be a frozen dataclass with a `code`")
    return rule


def explains(rules: Iterable[Rule | type[Rule]] | None = None) -> dict[str, frozenset[str]]:
    """Return, for each rule code, the codes of the rules whose findings it causes.

    Args:
        rules: rules to include; by default every installed rule.
    """
    if rules is None:
        return dict(_all_explain(tuple(sys.path)))
    return _causes(tuple(rules))


@lru_cache(maxsize=4)
def _all_explain(_path: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """Return `explains` of the rules that are installed on a path; finding them takes 7 ms."""
    return _causes(installed()[0])


def _causes(known: tuple[Rule | type[Rule], ...]) -> dict[str, frozenset[str]]:
    codes = {rule.name(): rule.code for rule in known}
    return {
        rule.code: frozenset(codes[name] for name in rule.explains if name in codes)
        for rule in known
    }
