"""List the runs, the latest last."""

from __future__ import annotations

import os
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import format_option, runs_dir_option, runs_folder

if TYPE_CHECKING:
    from mothtrap.report.summary import RunSummary

DATE = "%Y-%m-%d %H:%M"
"""When the latest attempt of a run was started, in the time of this machine."""


@click.command(name="ls")
@click.argument("folder", required=False, metavar="[DIR]")
@runs_dir_option
@format_option
def command(folder: str | None, runs_dir: str | None, form: str) -> None:
    """List the runs, the latest last: when each was started, how it ended, and its verdict.

    On a terminal a line ends with it; in a pipe and as JSON the verdict is whole. DIR is
    where they are kept: a folder, or a URL such as s3://bucket/runs [default: ./runs].
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.store.objects import is_url

    if folder is not None and runs_dir is not None:
        raise Refusal("DIR and --runs-dir are the same; give one of them")
    runs_dir = runs_dir or folder
    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    if not is_url(config.runs_dir):
        runs_folder(config.runs_dir, given=runs_dir is not None)
    listed = _listed(config.runs_dir)
    if form == "json":
        rows = [{"run": each.summary.run, "verdict": each.summary.verdict} for each in listed]
        click.echo(jsonable.encode(rows))
        return
    if not listed:
        click.echo(f"no runs in {config.runs_dir}; make one with: mothtrap run train.py", err=True)
    for line in _rows(listed):
        click.echo(line)


class _Listed(NamedTuple):
    """A run of the list; `started_s` is Unix time, None where it is not known."""

    summary: RunSummary
    started_s: float | None
    ending: str


def _listed(runs_dir: str) -> list[_Listed]:
    from mothtrap.core.errors import MothtrapError
    from mothtrap.monitor.catalogue import explains
    from mothtrap.reader.run import open_run
    from mothtrap.report.ending import ending_word
    from mothtrap.report.summary import summarize
    from mothtrap.store.find_runs import list_runs

    found = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        paths = list_runs(runs_dir)
    for warning in told:
        click.echo(f"warning: {warning.message}", err=True)
    for path in reversed(paths):
        try:
            run = open_run(path)
            started_s = run.info.created_s if run.info else None
            found.append(_Listed(summarize(run, explains()), started_s, ending_word(run)))
        except (MothtrapError, OSError) as err:
            click.echo(f"warning: {path.name} cannot be opened: {err}", err=True)
    return found


def _rows(listed: list[_Listed]) -> list[str]:
    from mothtrap.core.findings import Severity
    from mothtrap.report.style import Style, count_of

    style = Style.of(sys.stdout)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    names = max((len(each.summary.run.id) for each in listed), default=0)
    endings = max((len(each.ending) for each in listed), default=0)
    rows = []
    for summary, started_s, ending in listed:
        date = time.strftime(DATE, time.localtime(started_s)) if started_s is not None else "-"
        errors, warnings = summary.count(Severity.ERROR), summary.count(Severity.WARNING)
        counts = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
        row = (
            f"{style.safe(summary.run.id):<{names}}  {date:<16}  {ending:<{endings}}  "
            f"{summary.run.steps:>8,} steps  {counts:<23}  {style.safe(summary.verdict)}"
        )
        rows.append(row if columns is None else _cut(row, columns, "…" if style.glyphs else "..."))
    return rows


def _cut(text: str, columns: int, sign: str) -> str:
    return text if len(text) <= columns else text[: max(0, columns - len(sign))] + sign
