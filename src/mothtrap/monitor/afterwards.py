"""Evaluate rules on a stored run, with the results that they would have had during the job."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mothtrap.core.findings import RuleState
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import StepRecord
from mothtrap.core.rule import Rule
from mothtrap.core.runs import Judged, RuleStatus
from mothtrap.monitor.joined import JoinedWindows
from mothtrap.monitor.monitor import Monitor
from mothtrap.reader.merging import merge_findings, merge_statuses
from mothtrap.statistics.summary import WIDTH
from mothtrap.store.progress import counting

if TYPE_CHECKING:
    from mothtrap.monitor.reference import Reference
    from mothtrap.reader.run import Run

EVERY = 16
"""Number of records between two evaluations after the first 64 steps. Chosen by hand: rules look
back over hundreds of steps, so each record is still evaluated many times, and a run of a few
hundred steps takes about 0.2 s.
"""
MAX_WINDOWS = 500
"""Largest number of windows evaluated per worker after the first ones; chosen by hand: rules look
back far enough that every step is in an evaluated window, up to 250,000 steps."""
LONG_RECORDS = 64
"""Number of records from which a progress bar is shown; chosen by hand: evaluating their windows
one by one takes about a second."""


def judge_again(
    run: Run,
    rules: Sequence[Rule],
    quiet: Quiet | None = None,
    reference: Callable[[int], Reference] | None = None,
    switched_off: Sequence[RuleStatus] = (),
    every: int = EVERY,
) -> Judged:
    """Evaluate the rules on all stored records of a run; equal records give equal findings.

    While a job runs, windows after the first 64 steps are evaluated as time allows; here they are
    evaluated at regular intervals. Findings about relations are the same; `detected_step`, `count`
    and the numbers of a trend may differ if other windows were evaluated.

    Args:
        run: an opened run, which may still be active.
        rules: active rules.
        quiet: severities and layers that the user ignores.
        reference: opens, for a worker, the run to compare with.
        switched_off: states of rules that could not be created.
        every: minimum number of records between two evaluations after the first 64 steps.
    """
    monitors: list[Monitor] = []
    for number, histories in groupby(run.histories(), key=itemgetter(0)):
        end = run.end if number == run.attempts else None
        workers = [(rank, count, records) for _, rank, count, records in histories]
        comparing = [rule for rule in rules if rule.compares and len(workers) > 1]
        alone = [rule for rule in rules if rule not in comparing]
        joined: list[list[tuple[int, int, StepRecord]]] = []
        for rank, count, records in workers:
            distance = max(every, math.ceil(count / MAX_WINDOWS))
            beside = reference(rank) if reference else None
            monitor = Monitor(alone, rank, quiet=quiet, every=distance, reference=beside)
            monitors.append(monitor)
            kept = _judged(monitor, records, end.ended_s if end else None)
            with counting(f"evaluating w{rank}", count, long_parts=LONG_RECORDS) as told:
                facts = [
                    without_numbers(record)
                    for record in _counted(kept, told)
                    if comparing and record.observations
                ]
            joined.append([(record.key.step, rank, record) for record in facts])
        if comparing:
            monitors.append(_compare(comparing, heapq.merge(*joined, key=itemgetter(0)), quiet))
    statuses = merge_statuses((*(monitor.statuses() for monitor in monitors), switched_off))
    in_force = {status.code for status in run.rules}
    added = [status.code for status in statuses if status.code not in in_force]
    return Judged(
        findings=merge_findings(monitor.findings for monitor in monitors),
        rules=_with_lacks(statuses, _lacks(added, monitors)),
    )


def _lacks(codes: Iterable[str], monitors: Sequence[Monitor]) -> dict[str, str]:
    """Return the needs of rules that no worker has, in words; such rules were not active."""
    every = [monitor.lacking() for monitor in monitors]
    found: dict[str, str] = {}
    for code in codes:
        by_worker = [lacking[code] for lacking in every if code in lacking]
        if not by_worker:  # the rule could not be created
            continue
        needs = [need for need in by_worker[0] if all(need in others for others in by_worker[1:])]
        if needs:
            found[code] = ", ".join(
                f"no {', '.join(need.statistics)} of {', '.join(need.kinds)}" for need in needs
            )
    return found


def _with_lacks(statuses: tuple[RuleStatus, ...], lacks: dict[str, str]) -> tuple[RuleStatus, ...]:
    """Replace the reason of a waiting rule with the missing data, which will never be recorded."""
    return tuple(
        msgspec.structs.replace(
            status,
            reason=f"the run has {lacks[status.code]}, which the rule needs; a job that runs "
            "with this rule (--rules, select) captures it",
        )
        if status.state is RuleState.NOT_ENOUGH_DATA and status.code in lacks
        else status
        for status in statuses
    )


def _judged(
    monitor: Monitor, records: Iterator[StepRecord], ended_s: float | None
) -> Iterator[StepRecord]:
    for record in records:
        monitor.feed(record)
        yield record
    monitor.finish()
    if ended_s is not None:
        monitor.idle(ended_s)


def _counted(records: Iterable[StepRecord], told: Callable[[int], None]) -> Iterator[StepRecord]:
    for done, record in enumerate(records, 1):
        yield record
        told(done)


def _compare(
    rules: Sequence[Rule], records: Iterable[tuple[int, int, StepRecord]], quiet: Quiet | None
) -> Monitor:
    windows = JoinedWindows()
    monitor = Monitor(rules, builder=windows, quiet=quiet, every=1)
    for _, rank, record in records:
        windows.add(rank, record)
        monitor.feed(record)
    monitor.finish()
    return monitor


def without_numbers(record: StepRecord) -> StepRecord:
    """Return a record without numbers, for rules that compare workers."""
    return dataclasses.replace(
        record,
        defined=(),
        scalars=(),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
    )
