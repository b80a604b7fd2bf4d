"""A run as text, in full.

Every function returns text without a final newline; `style` describes the capabilities of the
stream.
"""

from __future__ import annotations

from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus, RunKind
from mothtrap.report.aftermath import in_words, saved_in_words
from mothtrap.report.boosting import boosting_lines
from mothtrap.report.cost import cost_of
from mothtrap.report.failures import failure_lines
from mothtrap.report.guarded import guarded_lines
from mothtrap.report.ignored import ignored_lines
from mothtrap.report.kept import kept_lines
from mothtrap.report.live_line import layers_in_words
from mothtrap.report.phases import phases_in_words
from mothtrap.report.simple_scores import scores_in_words
from mothtrap.report.style import PLAIN, SEVERITY_COLORS, Style, count_of, ranges, wrapped
from mothtrap.report.summary import RunSummary
from mothtrap.report.verdict import alarms

MAX_BLIND = 5
MAX_NOT_KEPT = 3
MAX_RULES = 4
MAX_TRACEBACK = 24
"""Lines of a traceback that are shown without `--all`: the innermost."""


def full(summary: RunSummary, style: Style = PLAIN, *, everything: bool = False) -> str:
    """Return every finding with evidence and help, causes before effects, then the verdict.

    `everything`: also list the rules that do not apply, with reasons.
    """
    blocks = [_block(finding, style, summary) for finding in summary.in_story_order()]
    lines = state_lines(summary, style, everything=everything)
    return "\n\n".join([*blocks, "\n".join(lines)])


def concise(summary: RunSummary, style: Style = PLAIN) -> str:
    """One line per finding as `file:line:column: CODE message`, for editors and grep."""
    lines = []
    for finding in summary.findings:
        place = f"{finding.location}:1" if finding.location else summary.run.id
        lines.append(
            f"{style.safe(place)}: {finding.code} {finding.severity}: "
            + style.safe(finding.message)
            + (f" ({finding.began})" if finding.has_step else "")
        )
    return "\n".join([*lines, f"{style.safe(summary.run.id)}: {style.safe(summary.verdict)}"])


def state_lines(
    summary: RunSummary, style: Style = PLAIN, *, everything: bool = False
) -> list[str]:
    """Return the lines about the run as a whole, verdict first.

    `everything`: include the reasons why rules do not apply.
    """
    severity = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    color = SEVERITY_COLORS[severity] if severity else "bold"
    lines = [style.paint(line, color) for line in wrapped(style.safe(summary.verdict), indent="  ")]
    if summary.run.kind is not RunKind.TRAIN:
        lines.append(f"  kind: {summary.run.kind}")
    if summary.run.steps or summary.findings:
        lines += wrapped(f"  {_counts(summary)}", indent="    ")
    lines += failure_lines(
        summary.failures, summary.snapshots, summary.called or summary.run.id, style
    )
    for text in summary.files:
        lines += wrapped(f"  {style.safe(text)}", indent="    ")
    lines += _traceback(summary, style, everything=everything)
    lines += guarded_lines(summary.guarded, style)
    lines += ignored_lines(summary.ignored, style)
    root = summary.diagnosis[0].root if summary.diagnosis else None
    first = next((f for f in summary.findings if f.fingerprint == root), None)
    if summary.replay is not None:
        lines += [f"  {style.safe(line)}" for line in summary.replay.told()]
    lines += kept_lines(summary.called or summary.run.id, summary.snapshots, style, first)
    if summary.known:
        lines.append(f"  hidden: {count_of(summary.known, 'finding')} in the baseline")
    lines += _unjudged(summary, style, RuleState.NOT_ENOUGH_DATA)
    other = summary.in_state(RuleState.NOT_APPLICABLE)
    if everything:
        lines += _unjudged(summary, style, RuleState.NOT_APPLICABLE)
    elif other:
        lines.append(f"  not applicable: {count_of(len(other), 'rule')} (--all lists the reasons)")
    if everything:
        lines += boosting_lines(summary.boosted, style)
    lines += _not_seen(summary, style)
    lines += _not_kept(summary, style)
    lines += alarms(summary, style)
    if summary.simple is not None:
        lines += wrapped(f"  score: {style.safe(scores_in_words(summary.simple))}", indent="    ")
    if summary.phases:
        lines += wrapped(f"  time: {phases_in_words(summary.phases)}", indent="    ")
    cost = cost_of(summary)
    if cost:
        lines += wrapped(f"  overhead: {cost}", indent="    ")
    return lines


def _traceback(summary: RunSummary, style: Style, *, everything: bool) -> list[str]:
    """The end of a traceback, or all of it if everything is requested."""
    lines = summary.traceback.splitlines()
    left_out = 0 if everything else max(0, len(lines) - MAX_TRACEBACK)
    shown = [f"    {style.safe(line)}" for line in lines[left_out:]]
    if left_out:
        shown.insert(0, f"    ... {count_of(left_out, 'line')} before (--all shows them)")
    return shown


def _ranks(finding: Finding) -> list[str]:
    """Return the ranks of a finding in words; empty for rank 0 only."""
    if finding.workers in ((), (0,)):
        return []
    return [f"rank{'s' * (len(finding.workers) > 1)} {ranges(finding.workers)}"]


def _block(finding: Finding, style: Style, summary: RunSummary) -> str:
    source = summary.sources.get(finding.location or "", "")
    head = style.paint(f"{finding.code} {finding.name}", SEVERITY_COLORS[finding.severity])
    layers = f"  {layers_in_words(finding, style)}" if finding.layers else ""
    counted = "captured step" if finding.has_step else "call"
    extent = [count_of(finding.count, counted)] if finding.count > 1 else []
    extent += _ranks(finding)
    mode = "" if finding.mode == "train" else f" of {finding.mode}"
    lines = [
        f"{style.glyph(finding.severity)} {head}{layers}"
        + (f"  {finding.began}{mode}" if finding.has_step else "")
        + (f"  ({', '.join(extent)})" if extent else ""),
        *wrapped(f"  {style.safe(finding.message)}", indent="  "),
    ]
    if finding.location:
        lines.append(f"  --> {style.safe(finding.location)}")
        lines += [f"      {style.safe(source)}"] if source else []
    if finding.why:
        lines += wrapped(f"  = why: {style.safe(finding.why)}", indent="    ")
    after = summary.after_of(finding)
    if after is not None and after.steps:
        lines += wrapped(f"  = lasted: {in_words(after, summary.run.unit)}", indent="    ")
        if saved := saved_in_words(after, summary.run.unit):
            lines += wrapped(f"  = weights saved before it: {style.safe(saved)}", indent="    ")
    if finding.caused_by:  # a fix of the cause is enough
        lines.append(f"  = follows from: {', '.join(finding.caused_by)}; fix that first")
    else:
        for fix in finding.fixes:
            lines += wrapped(f"  = fix: {style.safe(fix)}", indent="    ")
    if finding.causes:
        lines.append(f"  = led to: {', '.join(finding.causes)}")
    if not finding.is_assertion:  # its text is in the user's code
        lines.append(f"  = more: mothtrap rule {finding.code}")
    return "\n".join(lines)


def _counts(summary: RunSummary) -> str:
    words = [
        count_of(summary.count(severity), noun)
        for severity, noun in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"))
    ]
    if summary.count(Severity.INFO):
        words.append(count_of(summary.count(Severity.INFO), "note"))
    noted = {finding.code for finding in summary.findings}
    ok = sum(rule.code not in noted for rule in summary.in_state(RuleState.OK))
    rules = f"{count_of(ok, 'rule')} ok"
    if number := len(summary.in_state(RuleState.NOT_ENOUGH_DATA)):
        rules += f", {number} need{'s' * (number == 1)} more data"
    if number := len(summary.in_state(RuleState.NOT_APPLICABLE)):
        rules += f", {number} not applicable"
    workers = len(summary.run.workers)
    where = f" of {workers} ranks" if workers > 1 else ""
    steps = count_of(summary.run.steps, summary.run.unit)
    return f"{', '.join(words)} in {steps}{where}; {rules}"


def _unjudged(summary: RunSummary, style: Style, state: RuleState) -> list[str]:
    """Return a line for each reason for which rules are in a state."""
    by_reason: dict[str, list[RuleStatus]] = {}
    for rule in summary.in_state(state):
        by_reason.setdefault(rule.reason, []).append(rule)
    word, lines = state.replace("_", " "), []
    for reason, rules in by_reason.items():
        names = ", ".join(rule.name for rule in rules[:MAX_RULES])
        more = f" and {len(rules) - MAX_RULES} more" if len(rules) > MAX_RULES else ""
        because = f": {style.safe(reason)}" if reason else ""
        lines += wrapped(f"  {word}: {names}{more}{because}", indent="    ")
    return lines


def _not_seen(summary: RunSummary, style: Style) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for blind in summary.blind[:MAX_BLIND]:
        by_reason.setdefault(blind.reason, []).append(blind.what)
    lines = []
    for reason, names in by_reason.items():
        text = f"  not observed: {style.safe(', '.join(names))}: {style.safe(reason)}"
        lines += wrapped(text, indent="    ")
    more = len(summary.blind) - MAX_BLIND
    if more > 0:
        lines.append(f"  not observed: {more} more (mothtrap show --format json --all lists all)")
    return lines


def _not_kept(summary: RunSummary, style: Style) -> list[str]:
    lines = [
        f"  not kept: {style.safe(lost.what)} ({lost.count:,}): {style.safe(lost.reason)}"
        for lost in summary.not_kept[:MAX_NOT_KEPT]
    ]
    more = sum(lost.count for lost in summary.not_kept[MAX_NOT_KEPT:])
    if more:
        lines.append(f"  not kept: {more:,} more (mothtrap show --format json --all lists all)")
    return lines
