"""Follow a job from a shell: print the verdict so far, each new finding, and the final verdict."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mothtrap.core.findings import Finding, Severity
    from mothtrap.reader.run import Run
    from mothtrap.report.baseline import Baseline
    from mothtrap.report.summary import RunSummary

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells count: 128 and the number of SIGINT."""
POLL_S = 0.2
"""Seconds between two reads; chosen by hand: short enough to appear immediate."""


def follow(
    run: Run, explains: Mapping[str, frozenset[str]], baseline: Baseline | None
) -> RunSummary:
    """Print the verdict so far, each new finding, and the final verdict.

    If the run has ended, only the verdict is printed.

    Args:
        run: opened just before.
        explains: by rule code, codes of the rules whose findings that rule's findings cause.
        baseline: known findings, which are not printed.

    Returns:
        The run at its end.
    """
    from mothtrap.report.live_line import live_line
    from mothtrap.report.style import Style
    from mothtrap.report.summary import summarize
    from mothtrap.report.verdict import verdict
    from mothtrap.store.naming import name_here

    style = Style.of(sys.stdout)
    summary = summarize(run, explains, baseline=baseline, called=name_here(run.path))
    click.echo(verdict(summary, style), color=True)
    if summary.run.state != "running":
        return summary
    told = {finding.fingerprint: finding.severity for finding in run.findings}
    running = True
    while running:
        time.sleep(POLL_S)
        run.refresh()
        running = run.state == "running"  # read before the findings, so none is missed
        for finding in run.findings:
            if _is_news(finding, told) and not (baseline and baseline.holds(finding)):
                told[finding.fingerprint] = finding.severity
                click.echo(live_line(finding, style), color=True)
    summary = summarize(run, explains, baseline=baseline, called=name_here(run.path))
    click.echo(f"\n{verdict(summary, style)}", color=True)
    return summary


def _is_news(finding: Finding, told: Mapping[str, Severity]) -> bool:
    """Return True if a finding is new, or more severe than when it was printed."""
    before = told.get(finding.fingerprint)
    return before is None or finding.severity.rank < before.rank
