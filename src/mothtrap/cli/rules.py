"""List the rules, each with the fault that it detects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._options import format_option

if TYPE_CHECKING:
    from mothtrap.core.rule import Rule

LEGEND = "in brackets: the statistics that a rule needs; `mothtrap rule CODE` explains a rule"


@click.command(name="rules")
@format_option
@click.option(
    "--rules", "files", multiple=True, metavar="FILE", help="A Python file with more rules."
)
def command(form: str, files: tuple[str, ...]) -> None:
    """List the rules, each with the fault that it detects.

    Brackets show the statistics that a rule needs. Rules also use losses, other logged numbers, and
    facts about the program, which cost nothing extra.
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.monitor.catalogue import rule_classes, warnings_of

    given = {"rule_files": files or None}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=given)
    rules = rule_classes(config.rule_files)
    for warning in warnings_of(config.rule_files):
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        rows = [
            {
                "code": rule.code,
                "name": rule.name(),
                "summary": " ".join(rule.doc().summary.split()),
                "needs": _needs(rule),
                "explains": sorted(rule.explains),
            }
            for rule in rules
        ]
        click.echo(jsonable.encode(rows))
        return
    width = max((len(rule.name()) for rule in rules), default=0)
    for rule in rules:
        summary = rule.doc().summary.partition("\n")[0]
        needs = f"  [{', '.join(needed)}]" if (needed := _needs(rule)) else ""
        click.echo(f"{rule.code}  {rule.name():<{width}}  {summary}{needs}")
    click.echo(f"\n{LEGEND}", err=True)


def _needs(rule: type[Rule]) -> list[str]:
    """Return the captures that a rule needs, such as `gradient l2`."""
    said = [
        " ".join(
            (
                *need.kinds,
                *need.statistics,
                *(f"of {role}s" for role in need.roles),
                *(() if need.every == 1 else (f"every {need.every} steps",)),
            )
        )
        for need in rule.needs
        if need.kinds
    ]
    return list(dict.fromkeys(said))
