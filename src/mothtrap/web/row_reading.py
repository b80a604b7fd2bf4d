"""Reading of a run for a row of a list."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mothtrap.core.errors import MothtrapError
from mothtrap.core.findings import Severity
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.monitor.stored.associations import faults_of
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.run_facts import LISTED_BYTES
from mothtrap.reader.runs import own_columns
from mothtrap.report.ending import ending_word
from mothtrap.report.summary import RunSummary, size_of, summarize
from mothtrap.store.run_fingerprint import Fingerprint
from mothtrap.web.known_rules import known_causes
from mothtrap.web.row_cache import ListedRun, Row

ABANDONED_S = 24 * 3600.0
"""Age of the last change from which a run without an end is taken for dead; chosen by hand. Its
launcher samples the machine once a second, so a run that is alive changes."""


def read_listed(
    name: str,
    path: Path,
    started_s: float,
    look: Fingerprint,
    on_final: Callable[[Run], None] = lambda _: None,
) -> ListedRun:
    """Return a run for lists; `row.problem` explains why a run cannot be read.

    Args:
        name: name of the run in the list.
        path: its folder.
        started_s: Unix time that is shown if the run does not record its start.
        look: fingerprint of the folder before this call.
        on_final: called with a run that can no longer change.
    """
    try:
        run = open_run(path)
        summary = summarize(run, known_causes(), check_bytes=LISTED_BYTES)
        is_final = _is_final(run, look)
        if is_final:
            on_final(run)
        return ListedRun(
            row=_row(name, run, summary, started_s),
            run=msgspec.to_builtins(summary.run),
            damage=summary.damage,
            errors=summary.count(Severity.ERROR),
            warnings=summary.count(Severity.WARNING),
            codes=tuple(finding.code for finding in summary.findings),
            names=tuple(finding.name for finding in summary.findings),
            parameters=run.record.parameters,
            columns=own_columns(run),
            final=is_final,
        )
    except Exception as err:  # one run that cannot be read must not keep the others from the list
        return ListedRun(
            row=Row(name=name, started_s=started_s, state="unreadable", problem=str(err))
        )


def _row(name: str, run: Run, summary: RunSummary, started_s: float) -> Row:
    command = run.info.command if run.info else ()
    labels = run.labels
    worst = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    return Row(
        name=name,
        started_s=run.info.created_s if run.info else started_s,
        kind=run.kind.value,
        state=run.state,
        ending=ending_word(run),
        severity=worst.value if worst is not None and worst is not Severity.INFO else "",
        verdict=summary.verdict,
        steps=run.steps,
        size=size_of(run),
        active_s=last_activity_s(run),
        script=script_of(command),
        commit=_commit(run),
        parameters={**parameters_of(command), **run.record.parameters},
        metrics=run.metrics,
        findings=tuple(dict.fromkeys(f.code for f in summary.findings)),
        faults=faults_of(summary.findings),
        evaluated=not run.unevaluated,
        tags=labels.tags,
        group=labels.group,
        archived=labels.archived,
        ended=run.end is not None,
    )


def _is_final(run: Run, look: Fingerprint) -> bool:
    """Return whether the row of a run is valid as long as its files match the fingerprint `look`.

    The state of a run without an end depends on the processes that are alive.
    """
    over = run.end is not None or run.state == "finished"
    abandoned = run.state == "crashed" and time.time() - look.changed_s > ABANDONED_S
    return (over or abandoned) and look.is_settled


def parameters_of(command: tuple[str, ...]) -> dict[str, str]:
    """Return the options in a command line, by name without dashes."""
    found: dict[str, str] = {}
    words = arguments_without_secrets(command)
    for place, word in enumerate(words):
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        following = words[place + 1] if place + 1 < len(words) else ""
        if not equals:
            value = following if following and not following.startswith("--") else "yes"
        found[name] = value
    return found


def parameter_texts(run: Run) -> dict[str, str]:
    """Return the options of a run's command and its recorded parameters, as texts by name."""
    options = parameters_of(run.info.command) if run.info else {}
    return options | {name: str(value) for name, value in run.record.parameters.items()}


def script_of(command: tuple[str, ...]) -> str:
    """Return the script or module in a command line, or its first word."""
    for place, word in enumerate(command):
        if word.endswith(".py"):
            return Path(word).name
        if word == "-m" and place + 1 < len(command):
            return command[place + 1]
    return Path(command[0]).name if command else ""


def shown_command(command: tuple[str, ...]) -> str:
    """Return a command line as typed, without secrets, with Python's path shortened."""
    words = [Path(command[0]).name, *arguments_without_secrets(command)[1:]] if command else []
    return shlex.join(words)


def last_activity_s(run: Run) -> float:
    """Return the Unix time of the newest record, 0 before the first."""
    parts = [part for worker in run.workers for part in run.parts(worker)]
    ends = [float(part.view.commits.wall_s[-1]) for part in parts if len(part.view.commits)]
    return max(ends, default=0.0)


def _commit(run: Run) -> str:
    try:
        source = run.source
    except MothtrapError:
        return ""
    return source.commit[:8] + ("+" if source.changed_count else "") if source else ""
