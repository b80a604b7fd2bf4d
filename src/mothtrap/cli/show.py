"""Show what was found in a run; without RUN, in the latest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click


@click.command(name="show")
@click.argument("run", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["full", "concise", "json"]),
    default="full",
    show_default=True,
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info"]),
    help="Exit with 1 when a finding is at least this severe.",
)
@click.option("--runs-dir", metavar="DIR", help="Where runs are kept [default: ./runs].")
@click.pass_context
def command(
    ctx: click.Context, run: str | None, form: str, fail_on: str | None, runs_dir: str | None
) -> None:
    """Show what was found in a run; without RUN, in the latest.

    RUN is a path or the name of a run, as `mothtrap ls` lists them. A run that is still
    going on can be shown too.
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.core.findings import Severity
    from mothtrap.monitor.catalogue import explains
    from mothtrap.reader.run import open_run
    from mothtrap.report import text
    from mothtrap.report.style import Style
    from mothtrap.report.summary import summarize

    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    summary = summarize(open_run(run, config.runs_dir), explains())
    if form == "json":
        click.echo(jsonable.encode(summary))
    else:
        render = text.full if form == "full" else text.concise
        click.echo(render(summary, Style.of(sys.stdout)), color=True)
    if fail_on and any(f.severity.rank <= Severity(fail_on).rank for f in summary.findings):
        ctx.exit(1)
