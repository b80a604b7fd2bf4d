"""Merging of the results of several monitors of the same run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mothtrap.core.facts.captures import Blind, Thinned
from mothtrap.core.findings import PASSED, Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus

# The worst state first, then the most informative.
_STATES = (
    RuleState.ERROR,
    RuleState.WARNING,
    RuleState.RULE_FAILED,
    RuleState.OK,
    RuleState.NOT_ENOUGH_DATA,
    RuleState.NOT_APPLICABLE,
)


def merge_findings(monitors: Iterable[Sequence[Finding]]) -> tuple[Finding, ...]:
    """Merge the findings of several monitors.

    Args:
        monitors: all revisions of each monitor's findings, in order of writing; the last revision
            of a fingerprint counts.

    Returns:
        One finding per fingerprint, most severe first, then by onset. Its text and evidence come
        from the monitor that reported the earliest onset.
    """
    merged: dict[str, Finding] = {}
    for revisions in monitors:
        for finding in {_identity(f): f for f in revisions}.values():
            other = merged.get(_identity(finding))
            merged[_identity(finding)] = _join(other, finding) if other else finding
    return _worst_first(merged.values())


def join_attempts(
    earlier: Sequence[Finding], latest: Sequence[Finding], ok: Collection[str], resumed: int
) -> tuple[Finding, ...]:
    """Merge the findings of a resumed job: the latest attempt decides which are still active.

    Args:
        earlier: findings of all attempts before the latest one.
        latest: findings of the latest attempt; they replace earlier findings with the same
            identity.
        ok: codes of the rules that found nothing in the latest attempt.
        resumed: the step at which the latest attempt began.

    Returns:
        Findings, most severe first, then by onset. A finding that the latest attempt did not find
        again has ended, and becomes a note, as does a finding about a step that the latest attempt
        repeated.
    """
    now = {_identity(finding) for finding in latest}
    joined = list(latest)
    for finding in earlier:
        if _identity(finding) in now:
            continue
        over = finding.code in ok or finding.step >= resumed
        if over and PASSED not in finding.evidence:
            passed = f"{finding.message}; it was not found again after the job resumed at {resumed}"
            finding = msgspec.structs.replace(
                finding,
                severity=Severity.INFO,
                message=passed,
                evidence={**finding.evidence, PASSED: resumed},
            )
        joined.append(finding)
    return _worst_first(joined)


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: (f.severity.rank, f.step, f.code)))


def merge_statuses(monitors: Iterable[Sequence[RuleStatus]]) -> tuple[RuleStatus, ...]:
    """Merge rule states of several monitors: the last state of each, then the worst, by code."""
    merged: dict[str, RuleStatus] = {}
    for statuses in monitors:
        for status in {s.code: s for s in statuses}.values():
            known = merged.get(status.code)
            if known is None or _STATES.index(status.state) < _STATES.index(known.state):
                merged[status.code] = status
    return tuple(merged[code] for code in sorted(merged))


def merge_blind(blind: Iterable[Blind]) -> tuple[Blind, ...]:
    """Remove duplicates among unobserved parts."""
    merged: dict[tuple[str, str], Blind] = {}
    for item in blind:
        merged.setdefault((item.what, item.reason), item)
    return tuple(merged.values())


def _identity(finding: Finding) -> str:
    return finding.fingerprint or f"{finding.code} {finding.mode} {finding.layers[:1]}"


def _join(a: Finding, b: Finding) -> Finding:
    first = b if b.step < a.step else a
    return msgspec.structs.replace(
        first,
        severity=min(a.severity, b.severity, key=lambda severity: severity.rank),
        detected_step=min(a.detected_step, b.detected_step),
        last_step=max(a.last_step, b.last_step),
        count=max(a.count, b.count),
        workers=tuple(sorted({*a.workers, *b.workers})),
        layers=tuple(dict.fromkeys((*first.layers, *a.layers, *b.layers))),
    )


def merge_thinned(facts: Iterable[Thinned]) -> tuple[str, ...]:
    """Sum the skipped captures for each reason to capture, most skipped first."""
    counts: dict[str, tuple[int, int]] = {}
    for fact in facts:
        skipped, due = counts.get(fact.what, (0, 0))
        counts[fact.what] = skipped + fact.count, due + fact.due
    shares = {what: -skipped / due for what, (skipped, due) in counts.items()}
    return tuple(
        f"{what} ({counts[what][0]} of {counts[what][1]} captures)"
        for what in sorted(counts, key=lambda what: (shares[what], what))
    )
