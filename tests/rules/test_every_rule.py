"""Requirements of every rule in the catalogue, whoever wrote it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from tests.rules.windows import window

from mothtrap import rules
from mothtrap.core.errors import CannotJudge
from mothtrap.core.rule import Rule
from mothtrap.core.ruledoc import HEADINGS
from mothtrap.core.thresholds import describe
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.statistics.summary import STATISTICS

RULES = rule_classes()
CURES = re.compile(r"^(no|not|clip|use|fix|add|check|lower|set|without)_")
LACKS = {"no_checkpoint"}
"""Named after the thing whose absence is the fault."""

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def test_codes_and_names_are_unique() -> None:
    assert len({rule.name() for rule in RULES}) == len(RULES)
    loaded = {rule.__module__.rpartition(".")[2] for rule in RULES}
    files = {path.stem for path in Path(rules.__file__).parent.glob("[a-z]*.py")}
    assert files <= loaded  # of two rules with the same code, only one is loaded


@every_rule
def test_has_a_code_and_the_name_of_a_fault(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", rule.name())
    assert not CURES.match(rule.name()) or rule.name() in LACKS


@every_rule
def test_documentation_is_complete(rule: type[Rule]) -> None:
    doc = rule.doc()
    assert doc.summary.endswith(".")
    assert "\n" not in doc.summary
    assert tuple(doc.sections) == HEADINGS
    assert all(doc.sections.values())
    assert doc.fixes
    assert all(len(fix) > 20 for fix in doc.fixes)
    assert doc.why


@every_rule
def test_thresholds_say_unit_and_source_and_are_explained(rule: type[Rule]) -> None:
    for name, (unit, source) in describe(rule).items():
        assert unit, name
        assert source, name
        assert f"`{name}`" in rule.doc().sections["Fires"] + rule.doc().sections["Stays quiet"], (
            name
        )


@every_rule
def test_is_frozen_and_makes_itself(rule: type[Rule]) -> None:
    assert dataclasses.is_dataclass(rule)
    made = rule()
    assert made == rule()
    assert hash(made) == hash(rule())
    assert not [field.name for field in dataclasses.fields(rule) if hasattr(Rule, field.name)]


@every_rule
def test_names_only_rules_and_statistics_that_exist(rule: type[Rule]) -> None:
    names = {other.name() for other in RULES}
    assert set(rule.explains) <= names - {rule.name()}
    assert {statistic for need in rule.needs for statistic in need.statistics} <= set(STATISTICS)


@every_rule
def test_says_why_it_cannot_judge_an_empty_window(rule: type[Rule]) -> None:
    with pytest.raises(CannotJudge, match=r"\w+ \w+"):
        rule().check(window(steps=0))


@every_rule
def test_imports_nothing_but_core_arithmetic_and_its_like(rule: type[Rule]) -> None:
    tree = ast.parse(Path(inspect.getfile(rule)).read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    }
    allowed = re.compile(
        r"mothtrap\.core\.|mothtrap\.checks(\.|$)|mothtrap\.rules\._|numpy$|numpy\.lib|bisect$|msgspec$|"
        r"math$|fnmatch$|typing$|"
        r"dataclasses$|functools$|itertools$|collections|__future__$"
    )
    assert not [module for module in modules if not allowed.match(module)]
