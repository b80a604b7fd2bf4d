"""Show the findings of a run; without RUN, of the latest."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli import _following as following
from mothtrap.cli._findings import (
    DEFAULT_FILE,
    all_option,
    baseline_option,
    fail_on_option,
    fails,
    format_option,
    read,
    show,
)
from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option

if TYPE_CHECKING:
    from mothtrap.core.facts.captures import ToolError


def _show_tracebacks(failures: Iterable[ToolError]) -> None:
    """Print where mothtrap itself failed in the job, on stderr."""
    from mothtrap.report.style import Style

    safe = Style().safe
    for failure in failures:
        lines = failure.traceback.splitlines()
        if lines:
            click.echo(f"\nmothtrap failed in {safe(failure.part)}:", err=True)
            click.echo("\n".join(map(safe, lines)), err=True)


@click.command(name="show")
@click.argument("run", required=False)
@format_option
@fail_on_option(default=None)
@baseline_option
@click.option(
    "--save-baseline",
    is_flag=False,
    flag_value=DEFAULT_FILE,
    metavar="[FILE]",
    help="Write all findings to FILE as known findings, and show nothing [default FILE: "
    f"{DEFAULT_FILE}].",
)
@all_option
@click.option(
    "--follow",
    is_flag=True,
    help="Print the verdict so far, each new finding, and the final verdict.",
)
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    run: str | None,
    form: str,
    fail_on: str | None,
    baseline: str | None,
    save_baseline: str | None,
    everything: bool,
    follow: bool,
    runs_dir: str | None,
) -> None:
    """Show the findings of a run; without RUN, of the latest.

    RUN is a path or the name of a run, as `mothtrap ls` lists them. The run may still
    be running.

    \b
    mothtrap show RUN --follow                  until the job ends
    mothtrap show RUN --format json             short, for tools; --all gives everything
    mothtrap show RUN --save-baseline           accept all current findings as known
    mothtrap show RUN --baseline --fail-on error   only new or worse findings
    """
    import msgspec

    from mothtrap.core.config import load_config
    from mothtrap.monitor.catalogue import explains, rule_classes
    from mothtrap.reader.run import open_run
    from mothtrap.report.answers.questions import verdict
    from mothtrap.report.baseline import write_baseline
    from mothtrap.report.record import recorded
    from mothtrap.report.summary import summarize
    from mothtrap.store.naming import name_here

    if follow and (save_baseline or form != "full"):
        raise Refusal("--follow cannot be combined with --format or --save-baseline; omit them")
    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    opened = open_run(run, config.runs_dir)
    if save_baseline:
        count = write_baseline(Path(save_baseline), opened.findings)
        click.echo(f"{save_baseline}: {count} known finding{'' if count == 1 else 's'}", err=True)
        return
    known = explains(rule_classes(config.rule_files))
    if follow:
        try:
            summary = following.follow(opened, known, read(baseline))
        except KeyboardInterrupt:
            ctx.exit(following.INTERRUPTED)
    else:
        summary = summarize(opened, known, baseline=read(baseline), called=name_here(opened.path))
        if form == "json" and everything:
            summary = msgspec.structs.replace(summary, record=recorded(opened))
        record = recorded(opened) if form == "full" else None
        if form == "json" and not everything:
            click.echo(verdict(summary).json())
        else:
            show(summary, form, everything=everything, record=record)
        if ctx.obj and form != "json":
            _show_tracebacks(opened.tool_errors)
    if fails(summary, fail_on):
        ctx.exit(1)
