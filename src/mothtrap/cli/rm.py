"""Remove runs and all their data."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option


@click.command(name="rm")
@click.argument("runs", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@runs_dir_option
def command(runs: tuple[str, ...], yes: bool, runs_dir: str | None) -> None:
    """Remove runs and all their data. Running jobs are not removed.

    \b
    mothtrap rm RUN1 RUN2
    mothtrap gc --keep 20       by number, age or size
    """
    from mothtrap.core.config import load_config
    from mothtrap.reader.stored_run import remove_stored, stored
    from mothtrap.store.layout import find_run

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    if "://" in config.runs_dir or any("://" in run for run in runs):
        raise Refusal(
            "mothtrap does not remove runs from an object store; use the store's own commands"
        )
    found = [stored(find_run(run, config.runs_dir)) for run in runs]
    for run in found:
        if run.kept:
            raise Refusal(f"{run.path.name} is not removed: {run.kept}")
        click.echo(f"{run.size_bytes / 1e6:>10,.1f} MB  {run.path}")
    if not yes:
        click.confirm(f"Remove {len(found)} run{'s' * (len(found) != 1)}?", abort=True)
    for run in found:
        remove_stored(run.path)  # refuses a run that was resumed meanwhile
