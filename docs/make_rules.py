"""Writes docs/rules.md and a page for each rule, from docstrings and the programs that have it."""

from __future__ import annotations

from pathlib import Path

from mothtrap.monitor.catalogue import rule_classes
from mothtrap.report.rulepage import rule_markdown, rules_markdown

FOLDER = Path(__file__).parent
PROGRAMS = FOLDER.parent / "tests" / "faulty"


def pages() -> dict[Path, str]:
    """The text of every page; of our own rules, whatever else is installed."""
    own = tuple(rule for rule in rule_classes() if rule.__module__.startswith("mothtrap."))
    texts = {FOLDER / "rules.md": rules_markdown(own)}
    for rule in own:
        program = PROGRAMS / f"{rule.name()}.py"  # those that compare workers have none here
        source = program.read_text(encoding="utf-8") if program.exists() else ""
        texts[FOLDER / "rules" / f"{rule.name()}.md"] = rule_markdown(rule, source)
    return texts


def main() -> None:
    """Write the pages, and remove those of rules that are gone."""
    texts = pages()
    (FOLDER / "rules").mkdir(exist_ok=True)
    for stale in set((FOLDER / "rules").glob("*.md")) - texts.keys():
        stale.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
