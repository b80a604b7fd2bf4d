"""Acknowledge findings of a run, by code, name or fingerprint."""

from __future__ import annotations

import click

from mothtrap.cli._marking import mark
from mothtrap.cli._options import runs_dir_option


@click.command(name="ack")
@click.argument("run")
@click.argument("finding", nargs=-1, required=True)
@click.option("--note", default="", help="A note to store with the acknowledgment.")
@runs_dir_option
def command(run: str, finding: tuple[str, ...], note: str, runs_dir: str | None) -> None:
    """Acknowledge findings of a run, by code, name or fingerprint.

    \b
    mothtrap ack RUN GRD101 --note "lowered the learning rate"
    """
    mark(run, finding, "acknowledged", runs_dir, note)
