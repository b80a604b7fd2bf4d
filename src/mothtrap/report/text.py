"""A run as text: one line while it trains, the verdict at its end, the whole afterwards.

Every function returns text without a final newline; `style` says what the stream can show.
"""

from __future__ import annotations

from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus
from mothtrap.report.cost import cost_in_words
from mothtrap.report.failures import failure_lines
from mothtrap.report.guarded import guarded_lines
from mothtrap.report.kept import kept_lines
from mothtrap.report.style import SEVERITY_COLOURS, Style, count_of, ranges
from mothtrap.report.summary import RunSummary

PLAIN = Style()
MAX_LAYERS = 3
MAX_BLIND = 5
MAX_NOT_KEPT = 3
MAX_RULES = 4
MAX_REASONS = 3
UNJUDGED = {
    RuleState.NOT_ENOUGH_DATA: ("could not judge", "could not judge"),
    RuleState.NOT_APPLICABLE: ("does not apply", "do not apply"),
}


def live_line(finding: Finding, style: Style = PLAIN) -> str:
    """One line that says a finding while the job trains."""
    head = f"{finding.code} {finding.name}"
    parts = [
        f"mothtrap: {style.glyph(finding.severity)}",
        style.paint(head, SEVERITY_COLOURS[finding.severity]),
        f"at step {finding.step}" + (f" in {_layers(finding, style)}" if finding.layers else ""),
    ]
    where = f" ({style.safe(finding.location)})" if finding.location else ""
    return " ".join(parts) + f": {style.safe(finding.message)}{where}"


def full(summary: RunSummary, style: Style = PLAIN, *, everything: bool = False) -> str:
    """Every finding with evidence and help, causes before what follows, then the verdict.

    `everything`: also why which rules do not apply.
    """
    blocks = [_block(finding, style) for finding in _in_story_order(summary)]
    lines = verdict_lines(summary, style, whole=True, everything=everything)
    return "\n\n".join([*blocks, "\n".join(lines)])


def concise(summary: RunSummary, style: Style = PLAIN) -> str:
    """One line per finding as `file:line:column: CODE message`, for editors and grep."""
    lines = []
    for finding in summary.findings:
        place = f"{finding.location}:1" if finding.location else summary.run.id
        lines.append(
            f"{style.safe(place)}: {finding.code} {finding.severity}: "
            f"{style.safe(finding.message)} (step {finding.step})"
        )
    return "\n".join([*lines, f"{style.safe(summary.run.id)}: {style.safe(summary.verdict)}"])


def verdict(summary: RunSummary, style: Style = PLAIN) -> str:
    """The verdict sentence, counts, what could not be judged or seen, and the own cost."""
    return "\n".join(verdict_lines(summary, style))


def verdict_lines(
    summary: RunSummary, style: Style = PLAIN, *, whole: bool = False, everything: bool = False
) -> list[str]:
    """The lines of `verdict`, the sentence first.

    `whole`: with all reasons for which rules could not judge; `everything`: and with those for
    which they do not apply.
    """
    severity = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    colour = SEVERITY_COLOURS[severity] if severity else "bold"
    lines = [style.paint(style.safe(summary.verdict), colour)]
    root = _root(summary)
    if root is not None and not whole and root.severity is not Severity.INFO:
        lines.append(f"  {_said(root, style)}")
    if summary.run.steps or summary.findings:
        lines.append(f"  {_counts(summary)}")
    lines += failure_lines(summary, style)
    lines += guarded_lines(summary.guarded, style)
    lines += kept_lines(summary.called or summary.run.id, summary.snapshots, style, root)
    if summary.known:
        lines.append(f"  left out: {count_of(summary.known, 'finding')} that the baseline holds")
    lines += _unjudged(summary, style, RuleState.NOT_ENOUGH_DATA, None if whole else MAX_REASONS)
    other = summary.in_state(RuleState.NOT_APPLICABLE)
    if everything:
        lines += _unjudged(summary, style, RuleState.NOT_APPLICABLE)
    elif whole and other:
        lines.append(f"  not applicable: {count_of(len(other), 'rule')} (--all says why)")
    lines += _not_seen(summary, style)
    lines += _not_kept(summary, style)
    lines += _own_failures(summary, style)
    if summary.run.steps:
        run = summary.run
        lines.append(f"  own cost: {cost_in_words(summary.overhead, run.steps, len(run.workers))}")
    return lines


def _root(summary: RunSummary) -> Finding | None:
    """The finding with which the verdict opens."""
    root = summary.diagnosis[0].root if summary.diagnosis else None
    return next((f for f in summary.findings if f.fingerprint == root), None)


def _said(finding: Finding, style: Style) -> str:
    """What a finding says: while the job trained it was said long ago, or of another rank not."""
    where = ", ".join([f"step {finding.step}", *_ranks(finding)])
    return f"{finding.code} at {where}: {style.safe(finding.message)}"


def _ranks(finding: Finding) -> list[str]:
    """Who has it, in words, where that is not rank 0 alone."""
    if finding.workers in ((), (0,)):
        return []
    return [f"rank{'s' * (len(finding.workers) > 1)} {ranges(finding.workers)}"]


def _layers(finding: Finding, style: Style) -> str:
    names = ", ".join(style.safe(name) for name in finding.layers[:MAX_LAYERS])
    more = len(finding.layers) - MAX_LAYERS
    return names + (f" and {more} more" if more > 0 else "")


def _in_story_order(summary: RunSummary) -> list[Finding]:
    by_fingerprint = {finding.fingerprint: finding for finding in summary.findings}
    wanted = [name for story in summary.diagnosis for name in (story.root, *story.effects)]
    ordered = [by_fingerprint[name] for name in dict.fromkeys(wanted) if name in by_fingerprint]
    return ordered + [f for f in summary.findings if f.fingerprint not in wanted]


def _block(finding: Finding, style: Style) -> str:
    head = style.paint(f"{finding.code} {finding.name}", SEVERITY_COLOURS[finding.severity])
    layers = f"  {_layers(finding, style)}" if finding.layers else ""
    extent = [count_of(finding.count, "captured step")] if finding.count > 1 else []
    extent += _ranks(finding)
    mode = "" if finding.mode == "train" else f" of {finding.mode}"
    lines = [
        f"{style.glyph(finding.severity)} {head}{layers}  step {finding.step}{mode}"
        + (f"  ({', '.join(extent)})" if extent else ""),
        f"  {style.safe(finding.message)}",
    ]
    if finding.location:
        lines.append(f"  --> {style.safe(finding.location)}")
    if finding.why:
        lines.append(f"  = why: {style.safe(finding.why)}")
    if finding.caused_by:  # what helps against the cause, helps
        lines.append(f"  = follows from: {', '.join(finding.caused_by)}; mend that first")
    else:
        lines += [f"  = help: {style.safe(fix)}" for fix in finding.fixes]
    if finding.causes:
        lines.append(f"  = leads to: {', '.join(finding.causes)}")
    return "\n".join([*lines, f"  = more: mothtrap rule {finding.code}"])


def _counts(summary: RunSummary) -> str:
    words = [
        count_of(summary.count(severity), noun)
        for severity, noun in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"))
    ]
    if summary.count(Severity.INFO):
        words.append(count_of(summary.count(Severity.INFO), "note"))
    noted = {finding.code for finding in summary.findings}
    ok = sum(rule.code not in noted for rule in summary.in_state(RuleState.OK))
    rules = f"{count_of(ok, 'rule')} found nothing"
    for state, verbs in UNJUDGED.items():
        if number := len(summary.in_state(state)):
            rules += f", {number} {verbs[number > 1]}"
    workers = len(summary.run.workers)
    where = f" of {workers} workers" if workers > 1 else ""
    steps = count_of(summary.run.steps, "step")
    return f"{', '.join(words)} in {steps}{where}; {rules}"


def _unjudged(
    summary: RunSummary, style: Style, state: RuleState, most: int | None = None
) -> list[str]:
    """A line for each reason for which rules are in a state, `most` of them if so many."""
    by_reason: dict[str, list[RuleStatus]] = {}
    for rule in summary.in_state(state):
        by_reason.setdefault(rule.reason, []).append(rule)
    word, lines = state.replace("_", " "), []
    for reason, rules in list(by_reason.items())[:most]:
        names = ", ".join(rule.name for rule in rules[:MAX_RULES])
        more = f" and {len(rules) - MAX_RULES} more" if len(rules) > MAX_RULES else ""
        because = f": {style.safe(reason)}" if reason else ""
        lines.append(f"  {word}: {names}{more}{because}")
    left = [rule for rules in list(by_reason.values())[len(lines) :] for rule in rules]
    if left:
        lines.append(f"  {word}: {count_of(len(left), 'other rule')} (mothtrap show says why)")
    return lines


def _not_seen(summary: RunSummary, style: Style) -> list[str]:
    lines = [
        f"  not seen: {style.safe(blind.what)}: {style.safe(blind.reason)}"
        for blind in summary.blind[:MAX_BLIND]
    ]
    more = len(summary.blind) - MAX_BLIND
    if more > 0:
        lines.append(f"  not seen: {more} more (mothtrap show --format json lists all)")
    return lines


def _not_kept(summary: RunSummary, style: Style) -> list[str]:
    lines = [
        f"  not kept: {style.safe(lost.what)} ({lost.count:,}): {style.safe(lost.reason)}"
        for lost in summary.not_kept[:MAX_NOT_KEPT]
    ]
    more = sum(lost.count for lost in summary.not_kept[MAX_NOT_KEPT:])
    if more:
        lines.append(f"  not kept: {more:,} more (mothtrap show --format json says why)")
    return lines


def _own_failures(summary: RunSummary, style: Style) -> list[str]:
    lines = [
        f"  rule failed: {rule.code} {rule.name}: {style.safe(rule.reason)}"
        for rule in summary.in_state(RuleState.RULE_FAILED)
    ]
    lines += [
        f"  mothtrap failed in {style.safe(own.part)} and switched it off: {style.safe(own.error)}"
        for own in summary.tool_errors
    ]
    return lines + [f"  damaged: {style.safe(damage)}" for damage in summary.damage]
