"""Remove old runs by number, age, or size."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option, runs_folder

if TYPE_CHECKING:
    from mothtrap.store.retention import StoredRun

SECONDS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
BYTES = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
BYTES |= {"KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40}


@click.command(name="gc")
@runs_dir_option
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the latest N runs.")
@click.option("--older-than", metavar="AGE", help="Remove runs older than this: 90m, 12h, 30d, 2w.")
@click.option(
    "--max-size",
    metavar="SIZE",
    help="Remove the oldest runs above this total size: 500MB, 20GB, 1TiB.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def command(
    runs_dir: str | None,
    keep: int | None,
    older_than: str | None,
    max_size: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove old runs by number, age, or size; a running job is never touched.

    \b
    mothtrap gc --keep 20                     all but the latest 20
    mothtrap gc --older-than 30d --keep 5     runs older than 30 days, but never the latest 5
    mothtrap gc --max-size 20GB --dry-run     list what would be removed, oldest first
    """
    from mothtrap.core.config import load_config
    from mothtrap.reader.stored_run import stored
    from mothtrap.store.layout import list_runs
    from mothtrap.store.retention import remove, superfluous, sweep

    age_s = None if older_than is None else _amount("--older-than", older_than, SECONDS, "30d")
    limit = None if max_size is None else _amount("--max-size", max_size, BYTES, "20GB")
    if keep is None and age_s is None and limit is None:
        raise Refusal("select the runs to remove: --keep N, --older-than AGE, or --max-size SIZE")
    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    if "://" in config.runs_dir:
        raise Refusal(
            f"{config.runs_dir} is not a local folder; in an object store, use its lifecycle rules"
        )
    folder = runs_folder(config.runs_dir, given=runs_dir is not None)
    runs = [stored(path) for path in list_runs(folder)]
    going = superfluous(runs, keep=keep, older_than_s=age_s, max_bytes=limit, now_s=time.time())
    _say(runs, going)
    if dry_run or not going:
        return
    if not yes:
        click.confirm(f"Remove {_counted(len(going))}?", abort=True)
    for run, _ in going:
        # The user may have thought for long: a run may have been resumed meanwhile.
        again = stored(run.path)
        if again.kept:
            click.echo(f"kept {run.path.name}: {again.kept}", err=True)
        else:
            remove(run.path)
    sweep(folder)


def _say(runs: list[StoredRun], going: list[tuple[StoredRun, str]]) -> None:
    from mothtrap.report.style import Style

    safe = Style().safe
    for run in runs:
        if run.kept:
            click.echo(f"kept {safe(run.path.name)}: {safe(run.kept)}", err=True)
    for run, reason in going:
        days = (time.time() - run.touched_s) / 86400
        size = f"{run.size_bytes / 1e6:>10,.1f} MB"
        click.echo(f"{size}  {days:>7.1f} days  {safe(run.path.name)}  ({reason})")
    freed = sum(run.size_bytes for run, _ in going)
    total = sum(run.size_bytes for run in runs)
    click.echo(
        f"{len(going)} of {_counted(len(runs))} to remove: {freed / 1e6:,.1f} of "
        f"{total / 1e6:,.1f} MB"
    )


def _counted(number: int) -> str:
    return f"{number} run" + ("" if number == 1 else "s")


def _amount(option: str, text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text.strip())
    names = {name.upper(): factor for name, factor in units.items()}
    if match is None or match.group(2).upper() not in names:
        raise Refusal(
            f"{option} {text!r} cannot be read; expected a number with one of "
            f"{', '.join(units)}, e.g. {example}"
        )
    return float(match.group(1)) * names[match.group(2).upper()]
