"""Show the help of mothtrap, or of one of its commands."""

from __future__ import annotations

import click


@click.command(name="help")
@click.argument("name", required=False, metavar="[COMMAND]")
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Show the help of mothtrap, or of one of its commands."""
    parent = ctx.parent or ctx
    if name is None:
        click.echo(parent.get_help())
        return
    group = parent.command
    assert isinstance(group, click.Group)
    _, found, _ = group.resolve_command(parent, [name])
    if found is not None:
        click.echo(found.get_help(click.Context(found, info_name=name, parent=parent)))
