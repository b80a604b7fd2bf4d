"""The page of a rule, which must equal the page in the documentation."""

from __future__ import annotations

import itertools
import runpy
import tomllib
from pathlib import Path

from mothtrap.core import own_rules
from mothtrap.core.window import Window
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report.rulepage import rule_markdown, rule_text

DOCS = Path(__file__).parents[2] / "docs"


def test_every_rule_has_a_page_with_fixes_and_settings() -> None:
    assert rule_classes()
    for rule in rule_classes():
        for page in (rule_text(rule), rule_markdown(rule)):
            assert rule.code in page
            assert rule.name() in page
            assert "What to do" in page
            assert all(fix.split()[0] in page for fix in rule.doc().fixes)


def test_all_settings_are_toml() -> None:
    for rule in rule_classes():
        block = rule_text(rule).partition(f"[tool.mothtrap.rules.{rule.code}]\n")[2]
        lines = itertools.takewhile(str.strip, (line.strip() for line in block.splitlines()))
        tomllib.loads("\n".join(line for line in lines if not line.startswith("```")))
    rule = next(rule for rule in rule_classes() if rule.code == "DAT501")
    assert "threshold_mean = inf" in rule_text(rule)


def test_settings_show_value_unit_and_source() -> None:
    rule = next(rule for rule in rule_classes() if rule.code == "STR701")
    page = rule_text(rule)
    assert "[tool.mothtrap.rules.STR701]" in page
    assert "calls = 2" in page
    assert "chosen by hand" in page


def test_a_rule_without_a_docstring_has_its_settings_and_no_other_line() -> None:
    @own_rules.rule("OWN001")
    def too_high(window: Window, *, limit: float = 3.0) -> None:
        return None

    settings = "Settings\n  [tool.mothtrap.rules.OWN001]\n  limit = 3.0"
    assert rule_text(too_high) == f"OWN001 too_high\n\n{settings}"


def test_the_documentation_is_current() -> None:
    maker = runpy.run_path(str(DOCS / "make_rules.py"))
    wanted = maker["pages"]()
    assert set(wanted) == {DOCS / "rules.md", *(DOCS / "rules").glob("*.md")}
    stale = [path for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "not what docstrings and programs say; write them again with: make docs"
