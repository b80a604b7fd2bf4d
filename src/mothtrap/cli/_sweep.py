"""`mothtrap analyze` of many runs: options, progress, tables."""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mothtrap.cli._findings import NEVER
from mothtrap.cli._group import USAGE_OR_OWN_ERROR

if TYPE_CHECKING:
    from mothtrap.core.config import Config
    from mothtrap.monitor.stored.associations import Association
    from mothtrap.monitor.stored.unit import StoredVerdict
    from mothtrap.report.style import Style

Command = TypeVar("Command", bound=Callable[..., Any])
MOST_ROWS = 20
"""Rows of the table of options; chosen by hand. JSON has them all."""


def executor_options(command: Command) -> Command:
    """Add the options that apply to several runs."""
    options = (
        click.option(
            "--executor",
            metavar="NAME",
            help="Where to evaluate: processes, dask, dask://HOST:PORT, ray, ray://HOST:PORT "
            "[default: this process].",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="Processes that the executor starts [default: one per core].",
        ),
        click.option(
            "--by",
            metavar="OPTIONS",
            help="Show which values of these run options coincide with which findings: "
            "lr,batch_size, or `all`.",
        ),
        click.option(
            "--skip-done",
            is_flag=True,
            help="Reuse stored results if the rules and the data are the same.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def is_sweep(runs: Sequence[str], executor: str | None, by: str | None, *, skip_done: bool) -> bool:
    """Return whether a command line refers to several runs."""
    if len(runs) > 1 or executor or by or skip_done:
        return True
    return len(runs) == 1 and glob.has_magic(runs[0]) and not Path(runs[0]).exists()


def analyze_sweep(
    runs: Sequence[str],
    config: Config,
    *,
    executor: str | None,
    workers: int | None,
    by: str | None,
    skip_done: bool,
    form: str,
    fail_on: str | None,
    strict: bool,
) -> int:
    """Evaluate runs, print a line for each, then the table of parameters.

    Returns:
        The exit code: 2 if a run could not be evaluated (or, if `strict`, a rule failed), 1 if a
        finding is as severe as `fail_on`, otherwise 0.
    """
    from mothtrap.core import jsonable
    from mothtrap.monitor.stored.sweep import Analysis, places
    from mothtrap.report.style import Style
    from mothtrap.store.progress import counting

    found = places(runs or [config.runs_dir], config.runs_dir)
    analysis = Analysis(found, config, executor, skip_done=skip_done, workers=workers)
    style = Style.of(sys.stdout)
    with counting("evaluating runs", len(found), long_parts=2) as told:
        for done, verdict in enumerate(analysis, 1):
            line = jsonable.shown(verdict) if form == "json" else _line(verdict, style)
            click.echo(line, color=True)
            told(done)
    if by is not None:
        names = () if by == "all" else tuple(filter(None, by.split(",")))
        rows = analysis.by(*names)
        if form == "json":
            click.echo(jsonable.shown({"by": [row._asdict() for row in rows]}))
        else:
            click.echo("\n".join(["", *_table(rows, names)]))
    return _exit_code(analysis, fail_on, strict=strict)


def _line(verdict: StoredVerdict, style: Style) -> str:
    name = verdict.name or verdict.run
    text = f"cannot be evaluated: {verdict.error}" if verdict.error else verdict.verdict
    return f"{style.safe(name)}: {style.safe(text)}"


def _table(rows: Sequence[Association], names: Sequence[str]) -> Iterable[str]:
    """Yield the lines of the table of options."""
    if not rows:
        asked = f" of {', '.join(names)}" if names else ""
        yield f"no values{asked} to compare: all runs have the same values, or no findings"
        return
    cells = [("option", "value", "finding", "with it", "others", "p")]
    cells += [
        (
            row.option,
            row.value,
            f"{row.code} {row.name}",
            f"{row.found} of {row.runs}",
            f"{row.found_elsewhere} of {row.runs_elsewhere}",
            f"{row.p:.2g}",
        )
        for row in rows[:MOST_ROWS]
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
    if len(rows) > MOST_ROWS:
        yield f"{len(rows) - MOST_ROWS} more rows; --format json has them all"


def _exit_code(verdicts: Iterable[StoredVerdict], fail_on: str | None, *, strict: bool) -> int:
    from mothtrap.core.findings import Severity

    found = list(verdicts)
    if any(each.error or (strict and each.failed) for each in found):
        return USAGE_OR_OWN_ERROR
    if fail_on in (None, NEVER):
        return 0
    limit = Severity(fail_on).rank
    return int(any(f.severity.rank <= limit for each in found for f in each.findings))
