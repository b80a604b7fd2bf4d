"""Mute findings of a run, by code, name or fingerprint."""

from __future__ import annotations

import click

from mothtrap.cli._marking import mark
from mothtrap.cli._options import runs_dir_option


@click.command(name="mute")
@click.argument("run")
@click.argument("finding", nargs=-1, required=True)
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True),
    help="Mute for this many hours [default: forever].",
)
@click.option("--off", is_flag=True, help="Unmute the findings.")
@click.option("--note", default="", help="A note to store with the mute.")
@runs_dir_option
def command(
    run: str,
    finding: tuple[str, ...],
    hours: float | None,
    off: bool,
    note: str,
    runs_dir: str | None,
) -> None:
    """Mute findings of a run, by code, name or fingerprint.

    \b
    mothtrap mute RUN GRD101 --hours 8
    mothtrap mute RUN GRD101 --off
    """
    for_s = hours * 3600 if hours is not None and not off else None
    mark(run, finding, "unmuted" if off else "muted", runs_dir, note, for_s)
