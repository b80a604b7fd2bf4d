"""List the runs, newest last."""

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
from mothtrap.cli._options import runs_dir_option, runs_folder

if TYPE_CHECKING:
    from mothtrap.reader.run import Run
    from mothtrap.report.summary import RunSummary

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

    A terminal cuts each line at its width; a pipe and JSON get the full verdict. DIR is where runs
    are kept: a folder, or a URL such as s3://bucket/runs [default: ./runs].

    \b
    mothtrap ls --where 'lr > 1e-3 and GRD101'
    mothtrap ls --where "state == 'crashed' and not baseline" --format csv > runs.csv
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
    runs = _chosen(config.runs_dir, where, everything)
    if form == "csv":
        from mothtrap.reader.runs import Runs

        click.echo(Runs(runs).to_csv(), nl=False)
        return
    listed = _listed(runs)
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


class _Listed(NamedTuple):
    """A run of the list; `started_s` is Unix time, None where it is not known."""

    summary: RunSummary
    started_s: float | None
    ending: str
    run: Run


def _chosen(runs_dir: str, where: str | None, everything: bool) -> list[Run]:
    """Return the runs that are listed, the latest last."""
    from mothtrap.reader.runs import runs

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = runs(runs_dir, where, archived=everything)
    for warning in told:
        click.echo(f"warning: {warning.message}", err=True)
    return list(found)[::-1]


def _listed(runs: list[Run]) -> list[_Listed]:
    from mothtrap.core.errors import MothtrapError
    from mothtrap.monitor.catalogue import explains
    from mothtrap.reader.run_facts import LISTED_BYTES
    from mothtrap.report.ending import ending_word
    from mothtrap.report.summary import summarize

    found, causes = [], explains()
    for run in runs:
        try:
            started_s = run.info.created_s if run.info else None
            summary = summarize(run, causes, check_bytes=LISTED_BYTES)
            found.append(_Listed(summary, started_s, ending_word(run), run))
        except (MothtrapError, OSError) as err:
            click.echo(f"warning: {run.path.name} cannot be opened: {err}", err=True)
    return found


def _as_json(each: _Listed) -> dict[str, object]:
    labels = each.run.labels
    return {
        "run": each.summary.run,
        "verdict": each.summary.verdict,
        "damage": each.summary.damage,
        "parameters": each.run.record.parameters,
        "metrics": each.run.metrics,
        "findings": [finding.code for finding in each.summary.findings],
        "tags": labels.tags,
        "group": labels.group,
        "archived": labels.archived,
    }


def _rows(listed: list[_Listed]) -> list[str]:
    from mothtrap.core.findings import Severity
    from mothtrap.core.runs import RunKind
    from mothtrap.report.style import Style, count_of

    style = Style.of(sys.stdout)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    names = max((len(each.summary.run.id) for each in listed), default=0)
    endings = max((len(each.ending) for each in listed), default=0)
    rows = []
    for summary, started_s, ending, run in listed:
        date = time.strftime(DATE, time.localtime(started_s)) if started_s is not None else "-"
        errors, warnings = summary.count(Severity.ERROR), summary.count(Severity.WARNING)
        counts = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
        labels = "".join(f"[{style.safe(tag)}] " for tag in run.labels.tags)
        kind = "" if summary.run.kind is RunKind.TRAIN else f"[{summary.run.kind}] "
        row = (
            f"{style.safe(summary.run.id):<{names}}  {date:<16}  {ending:<{endings}}  "
            f"{summary.run.steps:>8,} steps  {counts:<23}  "
            f"{kind}{labels}{style.safe(summary.verdict)}"
        )
        rows.append(row if columns is None else _cut(row, columns, "…" if style.glyphs else "..."))
    return rows


def _cut(text: str, columns: int, sign: str) -> str:
    return text if len(text) <= columns else text[: max(0, columns - len(sign))] + sign
