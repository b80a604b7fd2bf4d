"""Explain one rule or probe: when it fires, why it matters, what to do."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.core.errors import nearest


@click.command(name="rule")
@click.argument("rule", metavar="CODE|NAME")
def command(rule: str) -> None:
    """Explain one rule or probe: when it fires, why it matters, what to do.

    Use the rule's code or name, in upper or lower case: STR701, dead_units.
    """
    from mothtrap.core.config import load_config
    from mothtrap.monitor.catalogue import documented, left_out_of
    from mothtrap.report.rulepage import rule_text

    config, _ = load_config(start=Path.cwd(), environ=os.environ)
    classes = documented(config.rule_files)
    known = {word: found for found in classes for word in (found.code, found.name())}
    is_code = any(character.isdigit() for character in rule)
    wanted = rule.upper() if is_code else rule.lower().replace("-", "_")
    if wanted not in known:
        for fault in left_out_of(config.rule_files):
            if rule in (fault.code, fault.name):
                raise Refusal(str(fault))
        raise Refusal(f"no rule {rule!r}{nearest(wanted, known)}; `mothtrap rules` lists them")
    click.echo(rule_text(known[wanted]))
