"""Store why a process was not observed, if no step ever opened a record."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mothtrap.core.error_texts import in_one_line, traceback_of
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.facts.guards import StepGuarded, TrainingStopped
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import StepRecord
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode, StepKey
from mothtrap.monitor.monitor import Monitor
from mothtrap.statistics.summary import WIDTH


def store_reasons(
    attempt: Path,
    rank: int | None,
    reasons: Sequence[Fact],
    ending: WorkerEnded,
    rules: Sequence[Rule] = (),
    quiet: Quiet | None = None,
) -> tuple[Path, bool]:
    """Write a record without steps, so that the verdict can state why there are no steps.

    Rules that need only these reasons are evaluated, and their findings are written.

    Args:
        attempt: folder of the attempt.
        rank: rank of this process, if it has one.
        reasons: failures and missing data.
        ending: how the process ended, if known.
        rules: active rules.
        quiet: findings that are not reported.

    Returns:
        The folder of the worker, and whether a rule found something.

    Raises:
        OSError: the folder cannot be written.
    """
    from mothtrap.store.layout import claim_worker

    number, folder = claim_worker(attempt, rank)
    store_facts(folder, (*reasons, ending))
    able = [rule for rule in rules if _needs_only(rule, reasons)]
    monitor = Monitor(able, number, quiet=quiet)
    return folder, bool(able) and _store_findings(attempt, number, monitor, reasons)


def _needs_only(rule: Rule, facts: Sequence[Fact]) -> bool:
    """Return whether a rule needs only facts."""
    needed = [need for need in rule.needs if not need.optional]
    told = (any(isinstance(one, need.facts) for one in facts) for need in needed)
    return bool(needed) and all(told)


def _store_findings(attempt: Path, number: int, monitor: Monitor, facts: Sequence[Fact]) -> bool:
    """Store the findings of rules from facts; return whether there are any."""
    from mothtrap.store.finding_log import FindingLog
    from mothtrap.store.layout import monitor_folder

    monitor.feed(_record_of(facts))
    monitor.finish()
    if monitor.findings:
        log = FindingLog(monitor_folder(attempt, number))
        log.append(monitor.findings)
        log.close()
    return bool(monitor.findings)


def follows_from_workers(attempt: Path) -> bool:
    """Return whether a worker of the job was stopped, failed, or was killed.

    In this case, the exception of the process that started the workers, such as torchrun, adds no
    information.

    Args:
        attempt: folder of the attempt that the launcher of mothtrap opened.
    """
    from mothtrap.store import layout
    from mothtrap.store.worker_reading import EventReader

    folder = layout.attempt_folder(attempt.parent, layout.attempts(attempt.parent)[-1])
    for rank in layout.workers(folder):
        facts = [
            fact
            for events in EventReader(layout.worker_folder(folder, rank)).poll()
            for fact in events.observations
        ]
        ended_well = any(isinstance(f, WorkerEnded) and f.exception is None for f in facts)
        stopped = any(
            (isinstance(f, TrainingStopped) and not f.error)
            or (isinstance(f, StepGuarded) and f.action == "stopped")
            for f in facts
        )
        if stopped or not ended_well:
            return True
    return False


def store_facts(folder: Path, facts: Sequence[Fact]) -> None:
    """Write one record without numbers to the folder of a worker; raises OSError."""
    from mothtrap.store.worker_log import WorkerLog

    log = WorkerLog(folder)
    log.append([_record_of(facts)])
    log.close()


def _record_of(facts: Sequence[Fact]) -> StepRecord:
    return StepRecord(
        key=StepKey(step=max(fact.step for fact in facts), mode=Mode.PREDICT),
        wall_s=time.time(),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        observations=tuple(facts),
    )


def store_start_failure(part: str, error: BaseException) -> None:
    """Record that this process of an observed job is not watched; silent, and never raises."""
    failure = ToolError(step=0, part=part, error=in_one_line(error), traceback=traceback_of(error))
    ending = WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0)
    rank = os.environ.get("RANK", "")
    try:
        attempt = Path(os.environ["MOTHTRAP_RUN_DIR"])
        store_reasons(attempt, int(rank) if rank.isdigit() else None, [failure], ending)
    except Exception:
        return  # the caller has reported the failure on stderr, and can add nothing
