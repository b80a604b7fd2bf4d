"""Verdict on a run that has ended."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import msgspec

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.config import Config
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.findings import RuleState
from mothtrap.core.runs import RunKind
from mothtrap.monitor.catalogue import explains, load_rules, rule_classes
from mothtrap.reader.run import Run, open_run
from mothtrap.report.document import gather
from mothtrap.report.formats import form_of, write, written
from mothtrap.report.style import Style
from mothtrap.report.summary import RunSummary, problems_in, summarize
from mothtrap.report.verdict import verdict
from mothtrap.store.naming import name_here
from mothtrap.store.remote import place_of, read_remote


def print_verdict(path: Path, config: Config, *, since_s: float | None = None) -> Run | None:
    """Print the verdict of a run on stderr; errors are ignored, because the job is done.

    Args:
        path: folder of the run.
        config: settings of the run.
        since_s: `time.monotonic` time from which on the launcher's time is not stored.

    Returns:
        The run, unless it cannot be read.
    """
    run = None
    try:
        run = open_run(path)
        rules = load_rules(config, checks=run.kind is RunKind.CHECK)
        summary = summarize(run, explains(rules), called=name_here(path))
        worth = problems_in(summary) or summary.ending or summary.tool_errors
        if config.quiet and not (worth or summary.in_state(RuleState.RULE_FAILED)):
            return run
        if since_s is not None:
            summary = _with_later_cost(summary, time.monotonic() - since_s)
        more = place_of(path) if read_remote(path) is not None else name_here(path)
        text = verdict(summary, Style.of(sys.stderr), shown=more)
        say_on_stderr(f"\n{text}")
    except Exception as err:
        say_on_stderr(f"mothtrap: cannot summarize {path} ({in_one_line(err)})")
    return run


def _with_later_cost(summary: RunSummary, seconds: float) -> RunSummary:
    cost = summary.overhead
    added_s = cost.added_seconds + seconds
    cost = msgspec.structs.replace(cost, added_seconds=added_s)
    return msgspec.structs.replace(summary, overhead=cost)


def print_next_steps(run: Run) -> None:
    """Print the command that resumes a run that was stopped on request."""
    try:
        if run.stop_reason is not None and run.info is not None:
            command = shlex.join(("mothtrap", "run", "--name", run.id, "--resume", "--"))
            say_on_stderr(
                f"  to continue from there: {command} {shlex.join(run.info.command)}\n  (a script "
                "that loads what it saved in mothtrap.on_stop continues where it stopped)"
            )
    except Exception:  # damaged data was reported with the verdict
        return


def write_report(path: Path, config: Config, file: str) -> None:
    """Write a report of a run in the format of the file name, or print why it failed."""
    try:
        run, rules = open_run(path), rule_classes(config.rule_files)
        summary = summarize(run, explains(rules), called=name_here(path))
        write(Path(file), written(gather(run, summary), form_of(file), rules))
        say_on_stderr(f"  report: {file}")
    except Exception as err:  # the job has ended
        say_on_stderr(f"mothtrap: cannot write the report {file} ({in_one_line(err)})")
