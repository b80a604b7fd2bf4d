"""The page of a rule, and that the documentation holds the same."""

from __future__ import annotations

import runpy
from pathlib import Path

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


def test_settings_show_value_unit_and_source() -> None:
    rule = next(rule for rule in rule_classes() if rule.code == "STR701")
    page = rule_text(rule)
    assert "[tool.mothtrap.rules.STR701]" in page
    assert "calls = 2" in page
    assert "chosen by hand" in page


def test_the_documentation_is_current() -> None:
    maker = runpy.run_path(str(DOCS / "make_rules.py"))
    wanted = maker["pages"]()
    assert set(wanted) == {DOCS / "rules.md", *(DOCS / "rules").glob("*.md")}
    stale = [path for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "not what docstrings and programs say; write them again with: make docs"
