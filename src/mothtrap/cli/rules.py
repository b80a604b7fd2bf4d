"""List the rules: what is looked for."""

from __future__ import annotations

import click


@click.command(name="rules")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(form: str) -> None:
    """List the rules: what is looked for."""
    from mothtrap.core import jsonable
    from mothtrap.monitor.catalogue import left_out, rule_classes

    rules = rule_classes()
    for fault in left_out():
        click.echo(f"warning: rule {fault}", err=True)
    if form == "json":
        rows = [
            {
                "code": rule.code,
                "name": rule.name(),
                "summary": " ".join(rule.doc().summary.split()),
                "explains": sorted(rule.explains),
            }
            for rule in rules
        ]
        click.echo(jsonable.encode(rows))
        return
    width = max((len(rule.name()) for rule in rules), default=0)
    for rule in rules:
        summary = rule.doc().summary.partition("\n")[0]
        click.echo(f"{rule.code}  {rule.name():<{width}}  {summary}")
