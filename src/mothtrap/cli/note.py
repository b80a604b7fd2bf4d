"""Add a note to a run."""

from __future__ import annotations

import click

from mothtrap.cli._labeling import label
from mothtrap.cli._options import runs_dir_option


@click.command(name="note")
@click.argument("run")
@click.argument("text")
@runs_dir_option
def command(run: str, text: str, runs_dir: str | None) -> None:
    """Add a note to a run; `mothtrap show`, reports and the page show it.

    \b
    mothtrap note RUN "warm-up was too short"
    """
    label((run,), "note", (text,), runs_dir)
