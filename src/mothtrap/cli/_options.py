"""Options that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._group import Refusal

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

runs_dir_option = click.option(
    "--runs-dir", metavar="DIR", help="Folder of the runs [default: ./runs]."
)
format_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)


def warn_of_damage(run: Run) -> None:
    """Warn on stderr about damage to a run, for commands that show no verdict."""
    from mothtrap.report.style import Style

    for text in run.damage:
        click.echo(f"warning: {Style().safe(run.id)} is damaged: {Style().safe(text)}", err=True)


def runs_folder(where: str, *, given: bool) -> Path:
    """Return the folder of runs.

    Args:
        where: folder as set.
        given: the folder comes from the command line, so it must exist.

    Raises:
        Refusal: it is a file, or does not exist.
    """
    folder = Path(where)
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder} is a file, not a folder; pass the folder that contains the runs")
    if given and not folder.exists():
        raise Refusal(
            f"the folder {where} does not exist in {Path.cwd()}; pass the folder that contains "
            "the runs"
        )
    return folder
