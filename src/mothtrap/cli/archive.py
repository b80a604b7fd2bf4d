"""Hide runs from lists, or restore them."""

from __future__ import annotations

import click

from mothtrap.cli._labeling import label
from mothtrap.cli._options import runs_dir_option


@click.command(name="archive")
@click.argument("runs", nargs=-1, required=True)
@click.option("--restore", is_flag=True, help="Restore archived runs.")
@runs_dir_option
def command(runs: tuple[str, ...], restore: bool, runs_dir: str | None) -> None:
    """Hide runs from lists, or restore them. `mothtrap ls --all` lists hidden runs, too."""
    label(runs, "restore" if restore else "archive", ("",), runs_dir)
