"""Put runs into a group."""

from __future__ import annotations

import click

from mothtrap.cli._labeling import label
from mothtrap.cli._options import runs_dir_option


@click.command(name="group")
@click.argument("name")
@click.argument("runs", nargs=-1, required=True)
@runs_dir_option
def command(name: str, runs: tuple[str, ...], runs_dir: str | None) -> None:
    """Put runs into a group; an empty NAME removes them from their group.

    \b
    mothtrap group sweep-3 RUN1 RUN2
    mothtrap ls --where "group == 'sweep-3'"
    """
    label(runs, "group", (name,), runs_dir)
