"""Write a report of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from mothtrap.cli._findings import baseline_option, fail_on_option, fails, read
from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option


@click.command(name="report")
@click.argument("run", required=False)
@click.option("-o", "--output", metavar="FILE", help="File to write to [default: stdout].")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown", "sarif", "junit", "github", "json"]),
    help="Default: from the name of FILE; without FILE, markdown on a terminal, else html.",
)
@click.option("--no-code", is_flag=True, help="Omit source lines.")
@fail_on_option(default=None)
@baseline_option
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    run: str | None,
    output: str | None,
    form: str | None,
    no_code: bool,
    fail_on: str | None,
    baseline: str | None,
    runs_dir: str | None,
) -> None:
    """Write a report of a run; without RUN, of the latest.

    \b
    mothtrap report RUN -o report.html
    mothtrap report RUN -o findings.sarif --fail-on error
    mothtrap report RUN --format github      annotations, and the summary of the job
    """
    from mothtrap.core.config import load_config
    from mothtrap.monitor.catalogue import documented, explains, rule_classes
    from mothtrap.reader.run import open_run
    from mothtrap.report.document import gather
    from mothtrap.report.formats import form_of, write, written
    from mothtrap.report.github import write_summary
    from mothtrap.report.summary import summarize
    from mothtrap.store.naming import name_here

    reads = form is None and output is None and _is_read()
    chosen = form or ("markdown" if reads else form_of(output))
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened = open_run(run, config.runs_dir)
    rules = documented(config.rule_files)
    known = explains(rule_classes(config.rule_files))
    summary = summarize(opened, known, baseline=read(baseline), called=name_here(opened.path))
    document = gather(opened, summary, code=not no_code)
    text = written(document, chosen, rules)
    if output in (None, "-"):
        click.echo(text, nl=False)
        if reads:
            called = name_here(opened.path)
            click.echo(f"\nas a web page: mothtrap report {called} -o report.html", err=True)
    else:
        path = Path(str(output))
        try:
            write(path, text)
        except OSError as err:
            raise Refusal(f"cannot write {path}: {err.strerror}") from err
        click.echo(f"{path}: {opened.id}, {len(text.encode(errors='replace')):,} bytes", err=True)
    if chosen == "github":
        write_summary(document, os.environ)
    if fails(summary, fail_on):
        ctx.exit(1)


def _is_read() -> bool:
    return sys.stdout.isatty()
