"""Rules that are installed or in files, and those in force."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterable, Mapping, Sequence

from mothtrap.core import invariants
from mothtrap.core.collections import CALLS
from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError, PluginError, UnknownNameError, nearest
from mothtrap.core.installed_rules import explains as explains
from mothtrap.core.installed_rules import installed
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import describe
from mothtrap.monitor.rule_files import rules_in
from mothtrap.rules.broken_invariant import BrokenInvariant

Setting = float | int | str | bool


def rule_classes(files: Sequence[str] = ()) -> tuple[type[Rule], ...]:
    """Return every rule that is installed and can be used, sorted by code.

    Args:
        files: Python files with further rules.

    Raises:
        ConfigError: a file cannot be used, or has the code or name of another rule.
    """
    found = {rule.code: rule for rule in installed()[0]}
    for file in files:
        for rule in rules_in(file):
            same = [known for known in found.values() if known.name() == rule.name()]
            for other in [*same, *filter(None, [found.get(rule.code)])]:
                what = f"{rule.code} is the code" if other.code == rule.code else "that is the name"
                raise ConfigError(
                    f"{file}: {rule.name()} cannot be used: {what} of the rule "
                    f"{other.code} {other.name()}"
                )
            found[rule.code] = rule
    return tuple(found[code] for code in sorted(found))


def left_out() -> tuple[PluginError, ...]:
    """Return why rules that other distributions brought cannot be used, one error for each."""
    return installed()[1]


def find_rule(code_or_name: str, files: Sequence[str] = ()) -> type[Rule]:
    """Return the rule of a code (any case) or a name; `files` hold further rules.

    Raises:
        UnknownNameError: there is none; names the nearest.
    """
    classes = rule_classes(files)
    for rule in classes:
        if code_or_name.upper() == rule.code or code_or_name == rule.name():
            return rule
    known = [word for rule in classes for word in (rule.code, rule.name())]
    raise UnknownNameError(
        f"no rule {code_or_name!r}{nearest(code_or_name, known)}; "
        f"the codes are: {', '.join(rule.code for rule in classes)}"
    )


def load_rules(config: Config) -> tuple[Rule, ...]:
    """Return the rules in force, with their thresholds, sorted by code.

    Raises:
        ConfigError: a rule code or threshold that does not exist, or of the wrong type, or
            a file of rules or of invariants that cannot be used.
    """
    classes = rule_classes(config.rule_files)
    codes = {rule.code: rule.name() for rule in classes}
    for code in config.rules:
        if code not in codes:
            raise ConfigError(
                f"configuration: [rules.{code}] names no rule{_meant(code, codes)}; "
                "rules are set by code, and `mothtrap rules` lists them"
            )
    _check_prefixes("select", config.select, codes)
    _check_prefixes("ignore", config.ignore, codes)
    _check_prefixes("severity", config.severity, codes)
    for layers, ignored in config.per_layer_ignores.items():
        _check_prefixes(f"per_layer_ignores.{layers}", ignored, codes)
    for name, collection in config.collections.items():
        called_by = [word for word in collection.on if word not in CALLS]
        _check_prefixes(f"collections.{name}.on", called_by, codes)
    made = [
        _with_thresholds(rule, config.rules.get(rule.code, {}))
        for rule in classes
        if config.selects(rule.code)
    ]
    return tuple(_with_invariants(made, config.invariants))


def _check_prefixes(key: str, prefixes: Iterable[str], codes: Mapping[str, str]) -> None:
    families = sorted({code.rstrip("0123456789") for code in codes})
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in codes):
            raise ConfigError(
                f"configuration: {key} holds {prefix!r}, which no rule code begins with"
                f"{_meant(prefix, codes, families)}; families are: {', '.join(families)}"
            )


def _meant(word: str, codes: Mapping[str, str], families: Iterable[str] = ()) -> str:
    """A hint at what was meant: the code of a rule that is called so, or what is spelled alike.

    Args:
        word: what was found in place of a code.
        codes: of all rules, with their names.
        families: what may stand there, too.
    """
    name = word.replace("-", "_").lower()
    named = [code for code, called in codes.items() if called == name]
    return f"; {named[0]} is the code of that rule" if named else nearest(word, [*codes, *families])


def _with_thresholds(rule: type[Rule], settings: Mapping[str, Setting]) -> Rule:
    if not settings:
        return rule()
    types = typing.get_type_hints(rule)
    known = list(describe(rule))
    values: dict[str, Setting] = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name not in known:
            raise ConfigError(
                f"configuration: [rules.{rule.code}] has no {key!r}{nearest(name, known)}; "
                f"thresholds of {rule.name()}: {', '.join(known) or 'none'}"
            )
        values[name] = _typed(rule.code, key, value, types[name])
    return rule(**values)


def _with_invariants(rules: Iterable[Rule], source: str) -> Iterable[Rule]:
    """Give a file of invariants to the rule that judges them."""
    learned = invariants.read(source) if source else ()
    for rule in rules:
        if learned and isinstance(rule, BrokenInvariant):
            yield dataclasses.replace(rule, invariants=learned)
        else:
            yield rule


def _typed(code: str, key: str, value: Setting, wanted: type) -> Setting:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        raise ConfigError(
            f"configuration: [rules.{code}] {key} = {value!r} is {type(value).__name__}, "
            f"expected {wanted.__name__}"
        )
    if isinstance(value, int | float) and not 0 < value < math.inf and wanted is not bool:
        raise ConfigError(
            f"configuration: [rules.{code}] {key} = {value!r} can be no threshold; expected a "
            f"number above 0, and finite"
        )
    return value
