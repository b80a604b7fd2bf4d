"""Writes docs/rules.md from the docstrings of the rules."""

from __future__ import annotations

from pathlib import Path

from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report.rulepage import rules_markdown

PAGE = Path(__file__).with_name("rules.md")


def main() -> None:
    """Write the page beside this script."""
    PAGE.write_text(rules_markdown(rule_classes()), encoding="utf-8")


if __name__ == "__main__":
    main()
