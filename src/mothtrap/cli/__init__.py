"""The command line: every public module of this package is one command, by file name."""

from __future__ import annotations

from pathlib import Path

import click

from mothtrap.cli._group import CommandFolder, show_version

__all__ = ["main"]


@click.group(
    cls=CommandFolder,
    folder=Path(__file__).parent,
    package=__name__,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of mothtrap's own errors.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(context: click.Context, verbose: bool) -> None:
    """Debug model training: what is wrong, since which step, where, and how to fix it.

    \b
    mothtrap run train.py    run a script, unchanged, and watch it
    mothtrap show            show the findings of the latest run
    mothtrap rule STR701     explain a finding
    """
    context.obj = verbose
