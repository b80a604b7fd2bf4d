"""List the runs, newest last."""

from __future__ import annotations

import os
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option, runs_folder

if TYPE_CHECKING:
    from mothtrap.web.row_cache import ListedRun

DATE = "%Y-%m-%d %H:%M"
"""When the latest attempt of a run was started, in the time of this machine."""


@click.command(name="ls")
@click.argument("folder", required=False, metavar="[DIR]")
@runs_dir_option
@click.option(
    "--where",
    metavar="EXPR",
    help="List only runs that match: comparisons of parameters, metrics, state, steps, "
    "group ..., codes of findings, and tags, joined with `and`, `or`, `not`.",
)
@click.option("--all", "everything", is_flag=True, help="List archived runs, too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
)
def command(
    folder: str | None, runs_dir: str | None, where: str | None, everything: bool, form: str
) -> None:
    """List the runs, newest last: when each was started, how it ended, and its verdict.

    On a terminal, each line is cut at its width; a pipe and JSON get the full verdict. DIR is where
    the runs are stored: a folder, or a URL such as s3://bucket/runs [default: ./runs].

    \b
    mothtrap ls --where 'lr > 1e-3 and GRD101'
    mothtrap ls --where "state == 'crashed' and not baseline" --format csv > runs.csv
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.store.objects import is_url

    if folder is not None and runs_dir is not None:
        raise Refusal("DIR and --runs-dir are the same; pass only one of them")
    runs_dir = runs_dir or folder
    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    if not is_url(config.runs_dir):
        runs_folder(config.runs_dir, given=runs_dir is not None)
    listed = _chosen(config.runs_dir, where, everything)
    if form == "csv":
        from mothtrap.reader.run_columns import as_csv, joined_row

        rows = [joined_row(each.columns, each.parameters, each.row.metrics) for each in listed]
        click.echo(as_csv(rows), nl=False)
        return
    if form == "json":
        click.echo(jsonable.shown([_as_json(each) for each in listed]))
        return
    if not listed and where is not None:
        click.echo(f"no run in {config.runs_dir} matches {where}", err=True)
    elif not listed:
        click.echo(
            f"no runs in {config.runs_dir}; record one with: mothtrap run train.py", err=True
        )
    for line in _rows(listed):
        click.echo(line)


def _chosen(runs_dir: str, where: str | None, everything: bool) -> list[ListedRun]:
    """Return the runs that are listed, the latest last."""
    from mothtrap.web.listed_runs import listed_runs

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = listed_runs(runs_dir)
    for warning in told:
        click.echo(f"warning: {warning.message}", err=True)
    for each in found:
        if each.row.problem:
            click.echo(f"warning: {each.row.name} cannot be opened: {each.row.problem}", err=True)
    shown = [
        each for each in found if not each.row.problem and (everything or not each.row.archived)
    ]
    return shown if where is None else _matching(shown, where)


def _matching(listed: list[ListedRun], expression: str) -> list[ListedRun]:
    from mothtrap.core.run_filter import read_filter
    from mothtrap.reader.run_columns import joined_facts

    wanted = read_filter(expression)
    known = [
        joined_facts(
            each.columns,
            each.parameters,
            each.row.metrics,
            (*each.codes, *each.names, *each.row.tags),
        )
        for each in listed
    ]
    if known:
        wanted.check([name for facts in known for name in (*facts.values, *facts.marks)])
    return [each for each, facts in zip(listed, known, strict=True) if wanted.test(facts)]


def _as_json(each: ListedRun) -> dict[str, object]:
    return {
        "run": each.run,
        "verdict": each.row.verdict,
        "damage": each.damage,
        "parameters": each.parameters,
        "metrics": each.row.metrics,
        "findings": each.codes,
        "tags": each.row.tags,
        "group": each.row.group,
        "archived": each.row.archived,
    }


def _rows(listed: list[ListedRun]) -> list[str]:
    from mothtrap.core.runs import RunKind
    from mothtrap.report.style import Style, count_of

    style = Style.of(sys.stdout)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    names = max((len(str(each.run["id"])) for each in listed), default=0)
    endings = max((len(each.row.ending) for each in listed), default=0)
    sizes = max((len(each.row.size) for each in listed), default=0)
    rows = []
    for each in listed:
        row = each.row
        date = time.strftime(DATE, time.localtime(row.started_s)) if row.started_s else "-"
        counts = f"{count_of(each.errors, 'error')}, {count_of(each.warnings, 'warning')}"
        labels = "".join(f"[{style.safe(tag)}] " for tag in row.tags)
        kind = "" if row.kind == RunKind.TRAIN else f"[{row.kind}] "
        line = (
            f"{style.safe(str(each.run['id'])):<{names}}  {date:<16}  {row.ending:<{endings}}  "
            f"{row.size:>{sizes}}  {counts:<23}  "
            f"{kind}{labels}{style.safe(row.verdict)}"
        )
        glyph = "…" if style.glyphs else "..."
        rows.append(line if columns is None else _cut(line, columns, glyph))
    return rows


def _cut(text: str, columns: int, sign: str) -> str:
    return text if len(text) <= columns else text[: max(0, columns - len(sign))] + sign
