"""List the runs, the latest last."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import format_option

if TYPE_CHECKING:
    from mothtrap.report.summary import RunSummary


@click.command(name="ls")
@click.argument("runs_dir", required=False, metavar="[DIR]")
@format_option
def command(runs_dir: str | None, form: str) -> None:
    """List the runs, the latest last.

    DIR is where they are kept: a folder, or a URL such as s3://bucket/runs [default: ./runs].
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.store.objects import is_url

    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    folder = Path(config.runs_dir)
    remote = is_url(config.runs_dir)
    if not remote and folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder} is a file, not a folder; give the folder where runs are kept")
    if not remote and runs_dir is not None and not folder.exists():
        raise Refusal(
            f"the folder {runs_dir} does not exist in {Path.cwd()}; "
            "give the folder where runs are kept"
        )
    summaries = _summaries(config.runs_dir)
    if form == "json":
        click.echo(jsonable.encode([{"run": s.run, "verdict": s.verdict} for s in summaries]))
        return
    if not summaries:
        click.echo(f"no runs in {config.runs_dir}; make one with: mothtrap run train.py", err=True)
    for line in _rows(summaries):
        click.echo(line)


def _summaries(runs_dir: str) -> list[RunSummary]:
    from mothtrap.core.errors import MothtrapError
    from mothtrap.monitor.catalogue import explains
    from mothtrap.reader.run import open_run
    from mothtrap.report.summary import summarize
    from mothtrap.store.places import list_runs

    found = []
    for path in reversed(list_runs(runs_dir)):
        try:
            found.append(summarize(open_run(path), explains()))
        except (MothtrapError, OSError) as err:
            click.echo(f"warning: {path.name} cannot be opened: {err}", err=True)
    return found


def _rows(summaries: list[RunSummary]) -> list[str]:
    from mothtrap.core.findings import Severity
    from mothtrap.report.style import Style

    style = Style.of(sys.stdout)
    width = max((len(s.run.id) for s in summaries), default=0)
    rows = []
    for s in summaries:
        errors, warnings = s.count(Severity.ERROR), s.count(Severity.WARNING)
        counts = f"{errors} error{'' if errors == 1 else 's'}, "
        counts += f"{warnings} warning{'' if warnings == 1 else 's'}"
        rows.append(
            f"{style.safe(s.run.id):<{width}}  {s.run.state:<8}  {s.run.steps:>8,} steps  "
            f"{counts:<23}  {style.safe(s.verdict)}"
        )
    return rows
