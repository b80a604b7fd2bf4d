"""Show each rank of a job: its node, its steps, and what it is doing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._options import format_option, runs_dir_option

if TYPE_CHECKING:
    from mothtrap.reader.worker_states import Workers

EVERY_S = 2.0
"""Seconds between two reads of the run."""


@click.command(name="workers")
@click.argument("run", required=False)
@click.option("--follow", is_flag=True, help="Print the table again every 2 seconds.")
@format_option
@runs_dir_option
def command(run: str | None, follow: bool, form: str, runs_dir: str | None) -> None:
    """Show each rank of a job: its node, its steps, and what it is doing.

    Without RUN, the latest run. The first line counts the ranks that were seen. `age` is the time
    since the rank last stored a step. `own` and `step` are medians of its last steps: the rank's
    own work, and the full step including the time it waits for other ranks. A rank that has not
    stored a step for a while `waits` in a collective, is `idle` elsewhere, or is `busy`. A rank
    about which its node reports nothing is `silent`.
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.reader.run import open_run

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened = open_run(run, config.runs_dir)
    while True:
        workers = opened.worker_states
        if form == "json":
            rows = [each._asdict() for each in workers.states]
            click.echo(jsonable.shown({"expected": workers.expected, "workers": rows}))
        else:
            click.echo("\n".join(_lines(workers)), color=True)
        if not follow or opened.state != "running":
            return
        time.sleep(EVERY_S)
        opened.refresh()


def _lines(workers: Workers) -> Iterator[str]:
    from mothtrap.report.style import Style
    from mothtrap.report.worker_table import worker_table

    style, table = Style.of(sys.stdout), worker_table(workers)
    yield table.coverage
    cells = [table.head, *table.rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.head))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield style.safe(line.rstrip())
