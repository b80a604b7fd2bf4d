"""Archive runs: lists leave them out."""

from __future__ import annotations

import click

from mothtrap.cli._labeling import label
from mothtrap.cli._options import runs_dir_option


@click.command(name="archive")
@click.argument("runs", nargs=-1, required=True)
@click.option("--restore", is_flag=True, help="List them again.")
@runs_dir_option
def command(runs: tuple[str, ...], restore: bool, runs_dir: str | None) -> None:
    """Archive runs: lists leave them out, unless they are asked for (`mothtrap ls --all`)."""
    label(runs, "restore" if restore else "archive", ("",), runs_dir)
