"""Answers about one run: verdict, one finding, source, record, unobserved parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mothtrap.core.documented import Documented
from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.core.findings import Finding, RuleState
from mothtrap.report.answers.answer import Answer
from mothtrap.report.difference import difference
from mothtrap.report.record import answers as record_answers
from mothtrap.report.record import recorded
from mothtrap.report.source_lines import lines_at, source_files, source_lines
from mothtrap.report.summary import RunSummary

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

_VERDICT = (
    *("run", "verdict", "diagnosis", "findings", "failures", "ending", "guarded", "replay"),
    *("snapshots", "blind", "tool_errors", "damage", "ignored", "not_kept", "dropped", "known"),
    *("called", "sources"),
)
"""Fields of a summary that the verdict has, in order; empty fields are left out."""
_FINDING = (
    *("code", "name", "title", "severity", "step", "last_step", "count", "mode", "layers"),
    *("location", "message", "evidence", "fingerprint", "causes", "caused_by"),
)
AROUND_PLACE = 12
"""Lines before and after a place that was requested."""
_ALL = "mothtrap show RUN --format json --all has everything"


def verdict(summary: RunSummary) -> Answer:
    """Return the verdict of a run, with a short form of each finding."""
    every = msgspec.to_builtins(summary)
    content: dict[str, Any] = {name: every[name] for name in _VERDICT if every.get(name)}
    content["findings"] = [_in_short(finding) for finding in summary.in_story_order()]
    states = Counter(rule.state.value for rule in summary.rules)
    content["rule_states"] = dict(states)
    failed = summary.in_state(RuleState.RULE_FAILED)
    if failed:
        content["rules"] = msgspec.to_builtins(failed)
    return Answer(
        question="verdict",
        content=content,
        ask={
            **dict.fromkeys(content, _ALL),
            "findings": "use `finding` to get one in full",
            "blind": "ask `coverage`",
        },
    )


def finding(run: Run, summary: RunSummary, which: str, rules: Sequence[type[Documented]]) -> Answer:
    """Return one finding in full, with its rule and its source line.

    Args:
        run: run that the finding is of.
        summary: summary of the run.
        which: fingerprint, code, or name of the finding.
        rules: known rules.

    Raises:
        UnknownNameError: the run has no such finding.
    """
    chosen = find(summary, which)
    rule = next((rule for rule in rules if rule.code == chosen.code), None)
    content: dict[str, Any] = {"run": summary.run.id, "finding": msgspec.to_builtins(chosen)}
    if rule is not None:
        content["rule"] = " ".join(rule.doc().summary.split())
    content["source"] = _plain(source_lines(run, chosen))
    after = summary.after_of(chosen)
    if after is not None:
        content["after"] = _plain(after)
    if summary.snapshots:
        content["snapshots"] = _plain(summary.snapshots)
    return Answer(question="finding", content=content, ask={"finding": _ALL})


def source(run: Run, summary: RunSummary, which: str, place: str = "") -> Answer:
    """Return the source lines around a finding, if the file matches the run's record.

    Args:
        run: the run.
        summary: summary of the run.
        which: code or fingerprint of a finding.
        place: `file:line` of the script to use instead of the finding's location.

    Raises:
        UnknownNameError: the run has no such finding.
    """
    found = lines_at(run, place, AROUND_PLACE) if place else source_lines(run, find(summary, which))
    numbered = {str(found.first + place): line for place, line in enumerate(found.lines)}
    content = {"run": summary.run.id, "location": found.location, "lines": numbered}
    if found.problem:
        content["problem"] = found.problem
        content["files"] = source_files(run)
    return Answer(question="source", content=content)


def record(run: Run) -> Answer:
    """Return the record of a run: command, parameters, data, code, machine."""
    told = recorded(run)
    content = {"run": run.id, "metrics": told.metrics, **record_answers(told, everything=False)}
    return Answer(question="record", content=content, ask=dict.fromkeys(content, _ALL))


def coverage(summary: RunSummary) -> Answer:
    """Return the unobserved parts and the rules without a result, with the reasons."""
    reasons: dict[str, list[str]] = {}
    for rule in summary.in_state(RuleState.NOT_ENOUGH_DATA, RuleState.RULE_FAILED):
        reasons.setdefault(rule.reason, []).append(f"{rule.code} {rule.name}")
    content = {
        "run": summary.run.id,
        "steps": summary.run.steps,
        "not_observed": _plain(summary.blind),
        "not_kept": _plain(summary.not_kept),
        "without_verdict": [{"reason": why, "rules": names} for why, names in reasons.items()],
        "not_applicable": len(summary.in_state(RuleState.NOT_APPLICABLE)),
        "damage": summary.damage,
    }
    return Answer(question="coverage", content=content, ask=dict.fromkeys(content, _ALL))


def comparison(first: Run, second: Run, verdicts: Mapping[str, str]) -> Answer:
    """Return the first difference between two runs, and both verdicts.

    Args:
        first: run A.
        second: run B.
        verdicts: the verdict of each run, by `first` and `second`.
    """
    found = msgspec.to_builtins(difference(first, second))
    content = {"verdicts": dict(verdicts), **found}
    how = "mothtrap diff A B --format json has everything"
    return Answer(question="compare", content=content, ask=dict.fromkeys(content, how))


def find(summary: RunSummary, which: str) -> Finding:
    """Return the finding with a fingerprint, code, or name.

    Raises:
        UnknownNameError: the run has no such finding; the message lists its findings.
    """
    word = which.strip()
    for one in summary.in_story_order():
        if word in (one.fingerprint, one.code, one.name) or word.upper() == one.code:
            return one
    known = list(dict.fromkeys(one.code for one in summary.findings))
    has = f"it has {', '.join(known[:8])}" if known else "nothing was found in the run"
    raise UnknownNameError(
        f"{summary.run.id} has no finding {which[:40]!r}{nearest(which, known)}; {has}"
    )


def _in_short(one: Finding) -> dict[str, Any]:
    every = msgspec.to_builtins(one)
    short = {name: every[name] for name in _FINDING if every[name] not in ("", None, [], {})}
    return {**short, "fixes": list(one.fixes[:1])}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
