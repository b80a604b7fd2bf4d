"""Shared parts of the commands that print findings: formats, baselines, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mothtrap.report.baseline import Baseline
    from mothtrap.report.record import RunRecord
    from mothtrap.report.summary import RunSummary

Command = TypeVar("Command", bound=Callable[..., Any])

NEVER = "never"
DEFAULT_FILE = "mothtrap-baseline.json"

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["full", "concise", "json"]),
    default="full",
    show_default=True,
)
rule_files_option = click.option(
    "--rules",
    "rule_files",
    multiple=True,
    metavar="FILE",
    help="A Python file with more rules; can be repeated.",
)
baseline_option = click.option(
    "--baseline",
    is_flag=False,
    flag_value=DEFAULT_FILE,
    metavar="[FILE]",
    help=f"Leave out the findings in FILE, unless they got worse [default FILE: {DEFAULT_FILE}].",
)
all_option = click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also list the rules that do not apply to the run, and why. With JSON: everything.",
)


def fail_on_option(default: str | None) -> Callable[[Command], Command]:
    """Return the option `--fail-on`: the lowest severity that gives exit code 1."""
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "info", NEVER]),
        default=default,
        show_default=default is not None,
        help="Exit with 1 if a finding is at least this severe.",
    )


def read(baseline: str | None) -> Baseline | None:
    """Read the requested baseline, if any."""
    from mothtrap.report.baseline import read_baseline

    return read_baseline(Path(baseline)) if baseline else None


def show(
    summary: RunSummary, form: str, *, everything: bool = False, record: RunRecord | None = None
) -> None:
    """Print the findings in one of the formats.

    Args:
        summary: summary of the run.
        form: form of the output.
        everything: also print why rules do not apply, and the whole record.
        record: record of the run, if it should be shown.
    """
    from mothtrap.core import jsonable
    from mothtrap.report import text
    from mothtrap.report.style import Style

    if form == "json":
        click.echo(jsonable.shown(summary))
        return
    style = Style.of(sys.stdout)
    if form == "full":
        click.echo(text.full(summary, style, everything=everything), color=True)
        if record is not None:
            from mothtrap.report.record import record_lines

            lines = record_lines(record, style, everything=everything)
            click.echo("\n".join(["", style.paint("record", "bold"), *lines]), color=True)
    else:
        click.echo(text.concise(summary, style), color=True)


def fails(summary: RunSummary, fail_on: str | None) -> bool:
    """Return True if a finding is at least as severe as `fail_on`."""
    from mothtrap.core.findings import Severity

    if fail_on in (None, NEVER):
        return False
    limit = Severity(fail_on).rank
    return any(finding.severity.rank <= limit for finding in summary.findings)
