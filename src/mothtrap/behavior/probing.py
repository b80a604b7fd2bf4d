"""Runs the probes on a subject, and decides which suspicions become findings."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import benjamini_hochberg
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.segments import Segment
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus

MAX_FINDINGS = 15
"""Findings that are reported; chosen by hand: longer lists are not read."""
FEW_ROWS = 500
"""With fewer held-out rows, statistical findings are notes; chosen by hand: the
halves have 250 rows, and a segment of 1 % three."""
FAILED = "the probe failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of all probes.

    Attributes:
        findings: Findings, worst first, at most `MAX_FINDINGS`.
        rows: Indices of a finding's rows in the given data, by fingerprint.
        segments: Segment of a finding, by fingerprint.
        statuses: state of each probe, with the reason if it could not run.
        left_out: Number of confirmed findings that are not reported.
        failures: tracebacks of probes that failed, by code.
    """

    findings: tuple[Finding, ...]
    rows: dict[str, npt.NDArray[np.int64]]
    segments: dict[str, Segment]
    statuses: tuple[RuleStatus, ...]
    left_out: int
    failures: dict[str, str]


def run_probes(subject: Subject, probes: Sequence[Probe], everything: Table) -> Outcome:
    """Run probes on a subject; an error in one probe does not stop the others.

    Args:
        subject: The probed model and its rows.
        probes: Probes, in the order in which they run.
        everything: All given rows; `subject` may have only a sample of them.
    """
    proposed: list[tuple[Probe, Suspicion]] = []
    states: dict[str, RuleStatus] = {}
    failures: dict[str, str] = {}
    for probe in probes:
        state, reason = RuleState.OK, ""
        try:
            if probe.needs_train and subject.train is None:
                raise NotApplicable("no training rows were given; pass them with train=")
            if probe.needs_new and subject.new is None:
                raise NotApplicable("no new rows were given; pass them with new=")
            subject.budget.spend()
            proposed += [(probe, suspicion) for suspicion in probe.look(subject)]
        except NotApplicable as err:
            state, reason = RuleState.NOT_APPLICABLE, str(err)
        except NotEnoughData as err:
            state, reason = RuleState.NOT_ENOUGH_DATA, str(err)
        except Exception as err:
            state = RuleState.RULE_FAILED
            reason = f"{FAILED}: {in_one_line(err)}"
            failures[probe.code] = traceback.format_exc()
        states[probe.code] = RuleStatus(
            code=probe.code, name=probe.name(), state=state, reason=reason
        )
    confirmed = _confirmed(proposed)
    few = len(subject.judged) < FEW_ROWS
    found: list[tuple[Finding, npt.NDArray[np.int64]]] = []
    segments: dict[str, Segment] = {}
    for probe, suspicion in confirmed:
        rows = _rows(suspicion, everything)
        finding = probe.finding(suspicion, rows.tolist(), few=few)
        found.append((finding, rows))
        if suspicion.segment is not None:
            segments.setdefault(finding.fingerprint, suspicion.segment)
    once: dict[str, tuple[Finding, npt.NDArray[np.int64]]] = {}
    for finding, rows in found:
        once.setdefault(finding.fingerprint, (finding, rows))
    ordered = sorted(once.values(), key=lambda each: (each[0].severity.rank, each[0].code))
    shown = ordered[:MAX_FINDINGS]
    return Outcome(
        findings=tuple(finding for finding, _ in shown),
        rows={finding.fingerprint: rows for finding, rows in shown if len(rows)},
        segments=segments,
        statuses=_with_findings(states, [finding for finding, _ in shown]),
        left_out=len(ordered) - len(shown),
        failures=failures,
    )


def _confirmed(proposed: Sequence[tuple[Probe, Suspicion]]) -> list[tuple[Probe, Suspicion]]:
    """Return exact relations, and suspicions whose p-value is small among all p-values."""
    tested = [i for i, (_, suspicion) in enumerate(proposed) if suspicion.p is not None]
    kept = benjamini_hochberg([proposed[i][1].p or 0.0 for i in tested])
    refused = {i for i, is_kept in zip(tested, kept, strict=True) if not is_kept}
    return [each for i, each in enumerate(proposed) if i not in refused]


def _rows(suspicion: Suspicion, everything: Table) -> npt.NDArray[np.int64]:
    if suspicion.segment is not None:
        return np.flatnonzero(suspicion.segment.mask(everything))
    return suspicion.rows


def _with_findings(
    states: dict[str, RuleStatus], findings: Sequence[Finding]
) -> tuple[RuleStatus, ...]:
    """Return the states, with the severity of the worst finding of each probe."""
    worst = {
        Severity.ERROR: RuleState.ERROR,
        Severity.WARNING: RuleState.WARNING,
    }
    for finding in reversed(findings):
        if finding.severity in worst:
            before = states[finding.code]
            states[finding.code] = RuleStatus(
                code=before.code, name=before.name, state=worst[finding.severity]
            )
    return tuple(states[code] for code in sorted(states))
