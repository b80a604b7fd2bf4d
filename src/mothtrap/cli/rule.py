"""Explain one rule: when it fires, why it matters, what to do."""

from __future__ import annotations

import click


@click.command(name="rule")
@click.argument("rule", metavar="CODE|NAME")
def command(rule: str) -> None:
    """Explain one rule: when it fires, why it matters, what to do.

    CODE is the rule's code in capitals or not, NAME its name: STR701, dead_units.
    """
    from mothtrap.monitor.catalogue import find_rule
    from mothtrap.report.rulepage import rule_text

    is_code = any(character.isdigit() for character in rule)
    wanted = rule.upper() if is_code else rule.lower().replace("-", "_")
    click.echo(rule_text(find_rule(wanted)))
