"""The page of a rule, as text and as Markdown, made from its docstring."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap

from mothtrap.core.documented import Documented
from mothtrap.core.ruledoc import HEADINGS
from mothtrap.core.thresholds import describe

CODE_HEADING = "Example"


def rule_text(rule: type[Documented]) -> str:
    """Return the page of a rule for a terminal."""
    doc = rule.doc()
    parts = [f"{rule.code} {rule.name()}", *filter(None, [doc.summary])]
    for heading in HEADINGS:
        if heading in doc.sections:
            body = "\n".join(f"  {line}".rstrip() for line in doc.sections[heading].split("\n"))
            parts.append(f"{heading}\n{body}")
    if settings := _settings(rule):
        rows = "\n".join([f"[tool.mothtrap.rules.{rule.code}]", *settings])
        parts.append(f"Settings\n{textwrap.indent(rows, '  ')}")
    if rule.explains:
        parts.append("Explains\n  " + ", ".join(sorted(rule.explains)))
    return "\n\n".join(parts)


def rule_markdown(rule: type[Documented], program: str = "") -> str:
    """Return the page of a rule as Markdown.

    Args:
        rule: the rule.
        program: source of a program with the fault; its `--healthy` version is fixed.
    """
    doc = rule.doc()
    parts = [f"# {rule.code} `{rule.name()}`", doc.summary]
    for heading in HEADINGS:
        if heading in doc.sections:
            body = doc.sections[heading]
            if heading == CODE_HEADING and "```" not in body:
                body = f"```python\n{body}\n```"
            parts += [f"## {heading}", body]
    if settings := _settings(rule):
        rows = "\n".join([f"[tool.mothtrap.rules.{rule.code}]", *settings])
        parts += ["## Settings", f"```toml\n{rows}\n```"]
    if rule.explains:
        parts += ["## Explains", ", ".join(f"`{name}`" for name in sorted(rule.explains))]
    if program:
        file = f"tests/faulty/{rule.name()}.py"
        parts += [
            "## A program with this fault",
            f"`mothtrap run {file}` reports the fault. With `--healthy`, the program runs without "
            "the fault, and mothtrap finds nothing.",
            f"```python\n{program.strip()}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def rules_markdown(rules: tuple[type[Documented], ...]) -> str:
    """Return a table of all rules by code, with links to their pages."""
    ordered = sorted(rules, key=lambda rule: rule.code)
    rows = [
        f"| [{rule.code}](rules/{rule.name()}.md) | `{rule.name()}` | "
        f"{' '.join(rule.doc().summary.split())} |"
        for rule in ordered
    ]
    head = [
        "# Rules",
        "`python docs/make_rules.py` generates these pages from the docstrings of the rules.",
        "\n".join(["| Code | Name | Fault |", "|---|---|---|", *rows]),
    ]
    contents = "```{toctree}\n:hidden:\n:glob:\n\nrules/*\n```"
    return "\n\n".join([*head, contents]) + "\n"


def _settings(rule: type[Documented]) -> list[str]:
    """The thresholds as lines of TOML with unit and source; empty without thresholds."""
    about = describe(rule)
    rows: list[str] = []
    for field in dataclasses.fields(rule):  # type: ignore[arg-type]  # a rule is a dataclass
        if field.name not in about:
            continue
        unit, source = about[field.name]
        said = "; ".join(filter(None, (unit, source)))
        rows += textwrap.wrap(said, 88, initial_indent="# ", subsequent_indent="# ")
        rows.append(f"{field.name} = {_toml(field.default)}")
    return rows


def _toml(value: object) -> str:
    return "inf" if value == math.inf else json.dumps(value)
