"""Rules that are installed, found through the registry, and the effects that they declare."""

from __future__ import annotations

from collections.abc import Iterable

from mothtrap.core import registry
from mothtrap.core.errors import PluginError, UnknownNameError
from mothtrap.core.rule import Rule

PACKAGE = "mothtrap.rules"


def installed() -> tuple[tuple[type[Rule], ...], tuple[PluginError, ...]]:
    """Return all rules by code, and an error for each of other distributions that is unusable."""
    found: dict[str, type[Rule]] = {}
    unusable = []
    for part in registry.parts(PACKAGE):
        if not part.origin:
            rule = registry.only_class(part.load(), Rule, "rule")
            found[rule.code] = rule
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


def _checked(part: registry.Part) -> type[Rule]:
    """Return the rule of another distribution's part, if it is made as rules are."""
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
    """Return for every rule code the codes of the rules whose findings it causes.

    Args:
        rules: by default every rule that is installed.
    """
    known = tuple(installed()[0] if rules is None else rules)
    codes = {rule.name(): rule.code for rule in known}
    return {
        rule.code: frozenset(codes[name] for name in rule.explains if name in codes)
        for rule in known
    }
