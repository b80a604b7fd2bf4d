"""Writes docs/rules.md from the docstrings of the rules."""

from __future__ import annotations

from pathlib import Path

from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report.rulepage import rules_markdown

PAGE = Path(__file__).with_name("rules.md")


def main() -> None:
    """Write the page beside this script; of our own rules, whatever else is installed."""
    own = tuple(rule for rule in rule_classes() if rule.__module__.startswith("mothtrap."))
    PAGE.write_text(rules_markdown(own), encoding="utf-8")


if __name__ == "__main__":
    main()
