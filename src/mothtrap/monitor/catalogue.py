"""Rules that are installed or in files, and the active rules."""

from __future__ import annotations

import dataclasses
import math
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core import installed_rules, invariants
from mothtrap.core.collections import CALLS
from mothtrap.core.config import Config
from mothtrap.core.documented import Documented
from mothtrap.core.errors import ConfigError, PluginError, UnknownNameError, nearest
from mothtrap.core.installed_rules import installed
from mothtrap.core.rule import Rule
from mothtrap.core.runs import RuleStatus
from mothtrap.core.thresholds import describe
from mothtrap.monitor.rule_faults import LeftOut
from mothtrap.monitor.rule_files import line_of, read_rules
from mothtrap.rules.broken_invariant import BrokenInvariant

if TYPE_CHECKING:
    from mothtrap.checks.check import Check

Setting = float | int | str | bool


def rule_classes(files: Sequence[str] = ()) -> tuple[type[Rule], ...]:
    """Return every installed rule that can be used, sorted by code.

    Args:
        files: Python files with further rules.

    Raises:
        ConfigError: a file does not exist, or is not a Python file.
    """
    return _known(files)[0]


def documented(files: Sequence[str] = ()) -> tuple[type[Documented], ...]:
    """Return every rule and probe, sorted by code; raises the same errors as `rule_classes`."""
    from mothtrap.behavior.installed_probes import probe_classes

    return tuple(sorted([*rule_classes(files), *probe_classes()], key=lambda each: each.code))


def explains(rules: Iterable[Rule | type[Rule]] | None = None) -> dict[str, frozenset[str]]:
    """Return, for each rule or probe code, the codes whose findings it causes.

    Args:
        rules: rules; by default every installed rule and probe.
    """
    found = installed_rules.explains(rules)
    if rules is not None:
        return found
    from mothtrap.behavior.installed_probes import explanations

    return {**found, **explanations()}


def left_out() -> tuple[PluginError, ...]:
    """Return an error for each rule of another package that cannot be used."""
    return installed()[1]


def left_out_of(files: Sequence[str]) -> tuple[LeftOut, ...]:
    """Return the unusable rules of files; see `rule_classes`."""
    return _known(files)[1] if files else ()


def warnings_of(files: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each installed or custom rule that cannot be used."""
    return (*(f"rule {fault}" for fault in left_out()), *map(str, left_out_of(files)))


def switched_off(config: Config) -> tuple[RuleStatus, ...]:
    """Return the states of selected custom rules that cannot be used."""
    faults = left_out_of(config.rule_files)
    return tuple(each.status for each in faults if not each.code or config.selects(each.code))


def _known(
    files: Sequence[str], *, checks: bool = True
) -> tuple[tuple[type[Rule], ...], tuple[LeftOut, ...]]:
    """Return all rules by code, and the rules of files that cannot be used.

    Args:
        files: Python files with further rules.
        checks: include the checks; their 44 modules take 30 ms to import.
    """
    found: dict[str, type[Rule]] = {rule.code: rule for rule in installed()[0]}
    if checks:
        from mothtrap.checks.catalogue import checks as every_check

        found |= {check.code: check for check in every_check()}
    unusable: list[LeftOut] = []
    for file in files:
        rules, faults = read_rules(file)
        unusable += faults
        for rule in rules:
            taken = _taken(rule, found)
            if taken:
                where = f"{Path(file).absolute()}:{line_of(rule)}"
                unusable.append(LeftOut(where=where, name=rule.name(), reason=taken))
            else:
                found[rule.code] = rule
    return tuple(found[code] for code in sorted(found)), tuple(_with_own_codes(unusable, found))


def _with_own_codes(faults: Iterable[LeftOut], found: Iterable[str]) -> Iterable[LeftOut]:
    """Keep a code with its first rule if another rule claims the same code."""
    taken = set(found)
    for fault in faults:
        yield msgspec.structs.replace(fault, code="") if fault.code in taken else fault
        taken.add(fault.code)


def _taken(rule: type[Rule], found: Mapping[str, type[Rule]]) -> str:
    """Name the other rule with the code or name of a rule; '' if both are unique."""
    other = found.get(rule.code)
    if other is not None:
        return (
            f"{rule.code} is the code of the rule {other.code} {other.name()}; give it an unused "
            f"code, such as {_free(rule.code, found)}"
        )
    other = next((known for known in found.values() if known.name() == rule.name()), None)
    if other is not None:
        return (
            f"{rule.name()} is the name of the rule {other.code} {other.name()}; give its function "
            "or class another name"
        )
    return ""


def _free(code: str, found: Mapping[str, type[Rule]]) -> str:
    family = code.rstrip("0123456789")
    numbers = (*range(901, 1000), *range(100, 901))
    return next(f"{family}{n}" for n in numbers if f"{family}{n}" not in found)


def find_rule(code_or_name: str, files: Sequence[str] = ()) -> type[Rule]:
    """Return the rule with a code (any case) or name; `files` contain further rules.

    Raises:
        UnknownNameError: there is no such rule; the message suggests one.
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


def load_checks(config: Config) -> tuple[Check, ...]:
    """Return the active checks with their thresholds, cheapest first.

    Raises:
        ConfigError: see `load_rules`.
    """
    from mothtrap.checks.catalogue import checks as every_check
    from mothtrap.checks.check import Check

    order = [check.code for check in every_check()]
    rules = load_rules(config, checks=True)
    found = [rule for rule in rules if isinstance(rule, Check)]
    return tuple(sorted(found, key=lambda check: order.index(check.code)))


def load_rules(config: Config, *, checks: bool = False) -> tuple[Rule, ...]:
    """Return the active rules with their thresholds, sorted by code.

    Args:
        config: settings of the run.
        checks: checks with the rules that only `mothtrap check` evaluates.

    Raises:
        ConfigError: a rule code or threshold that does not exist, or of the wrong type, or
            a file of rules or of invariants that cannot be used.
    """
    classes, faults = _known(config.rule_files, checks=checks or config.names_rules)
    codes = {fault.code: fault.name for fault in faults if fault.code}
    codes |= {rule.code: rule.name() for rule in classes}
    # otherwise a code may belong to a rule that is left out
    if all(fault.code for fault in faults):
        _check_codes(config, codes)
    made = [  # not `issubclass`, which asks each class below an abstract one: 5 ms for all rules
        _with_thresholds(rule, config.rules.get(rule.code, {}))
        for rule in classes
        if config.selects(rule.code) and (checks or not _is_check(rule))
    ]
    return tuple(_with_invariants(made, config.invariants))


def _is_check(rule: type[Rule]) -> bool:
    """Return whether a rule is a check; none is if the class of checks is not imported."""
    module = sys.modules.get("mothtrap.checks.check")
    return module is not None and module.Check in rule.__mro__


def _check_codes(config: Config, codes: Mapping[str, str]) -> None:
    """Raise ConfigError if a setting names a rule that does not exist."""
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


def _check_prefixes(key: str, prefixes: Iterable[str], codes: Mapping[str, str]) -> None:
    families = sorted({code.rstrip("0123456789") for code in codes})
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in codes):
            raise ConfigError(
                f"configuration: {key} contains {prefix!r}, but no rule code begins with it"
                f"{_meant(prefix, codes, families)}; families are: {', '.join(families)}"
            )


def _meant(word: str, codes: Mapping[str, str], families: Iterable[str] = ()) -> str:
    """Return a hint: the code of the rule with this name, or a similarly spelled word.

    Args:
        word: the word used instead of a code.
        codes: codes of all rules, with their names.
        families: families of rules, which are allowed too.
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
    try:
        return rule(**values)
    except Exception as err:  # of a rule that checks its thresholds
        raise ConfigError(
            f"configuration: {rule.name()} rejects [rules.{rule.code}]: {type(err).__name__}: {err}"
        ) from err


def _with_invariants(rules: Iterable[Rule], source: str) -> Iterable[Rule]:
    """Pass a file of invariants to the rule that evaluates it, and to the checks of a contract."""
    if not source:
        yield from rules
        return
    from mothtrap.checks.contract import ContractCheck

    learned, contract = invariants.read(source), invariants.read_contract(source)
    for rule in rules:
        if contract and isinstance(rule, ContractCheck):
            yield dataclasses.replace(rule, expected=contract)
            continue
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
            f"configuration: [rules.{code}] {key} = {value!r} is not a valid threshold; expected "
            "a finite number above 0"
        )
    return value
