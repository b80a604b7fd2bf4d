"""Which rules there are, which are in force, and what explains what."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

from mothtrap.core import invariants, registry
from mothtrap.core.collections import CALLS
from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError, PluginError, UnknownNameError, nearest
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import describe
from mothtrap.monitor.rule_files import rules_in
from mothtrap.rules.broken_invariant import BrokenInvariant

PACKAGE = "mothtrap.rules"

Setting = float | int | str | bool


def rule_classes(files: Sequence[str] = ()) -> tuple[type[Rule], ...]:
    """Return every rule that is installed and can be used, sorted by code.

    Args:
        files: Python files with further rules.

    Raises:
        ConfigError: a file cannot be used, or has the code or name of another rule.
    """
    found = {rule.code: rule for rule in _installed()[0]}
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
    return _installed()[1]


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


def explains(rules: Iterable[Rule | type[Rule]] | None = None) -> dict[str, frozenset[str]]:
    """Return for every rule code the codes of the rules whose findings it causes.

    Args:
        rules: by default every rule that is installed.
    """
    known = tuple(rule_classes() if rules is None else rules)
    codes = {rule.name(): rule.code for rule in known}
    return {
        rule.code: frozenset(codes[name] for name in rule.explains if name in codes)
        for rule in known
    }


def _installed() -> tuple[tuple[type[Rule], ...], tuple[PluginError, ...]]:
    """The rules by code, and an error for each of others' that cannot be used."""
    found: dict[str, type[Rule]] = {}
    unusable = []
    for part in registry.parts(PACKAGE):
        if not part.origin:
            rule = _rule_in(part.load())
            found[rule.code] = rule
            continue
        try:
            rule = _checked(part)
            if rule.code in found:
                raise part.fault(f"{rule.code} is the code of {found[rule.code].name()} already")
        except PluginError as err:
            unusable.append(err)
        else:
            found[rule.code] = rule
    return tuple(found[code] for code in sorted(found)), tuple(unusable)


def _checked(part: registry.Part) -> type[Rule]:
    """The rule of another distribution's part, if it is made as rules are."""
    module = part.load()
    try:
        rule = _rule_in(module)
        made = rule()
    except (UnknownNameError, TypeError) as err:
        raise part.fault(str(err)) from err
    code: object = getattr(made, "code", None)
    if not isinstance(code, str) or not hasattr(rule, "__dataclass_fields__"):
        raise part.fault(f"{rule.__name__} must be a frozen dataclass with a `code`")
    return rule


def _rule_in(module: ModuleType) -> type[Rule]:
    classes: list[type[Rule]] = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Rule)
        and not inspect.isabstract(value)
        and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise UnknownNameError(
            f"{module.__name__} holds {len(classes)} rules; a file holds exactly one rule class"
        )
    return classes[0]


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
