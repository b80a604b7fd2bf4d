"""The verdict on a run in at most 80 columns: the fault, its place, its effects, and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mothtrap.core.diagnosis import Story, fault_name, sentence_of
from mothtrap.core.findings import Finding, RuleState, Severity, has_passed
from mothtrap.core.runs import SHOWN_OFF, Overhead, switched_off
from mothtrap.report.aftermath import clause_lines
from mothtrap.report.failures import failure_lines
from mothtrap.report.guarded import guarded_lines
from mothtrap.report.ignored import ignored_lines
from mothtrap.report.kept import replay_command
from mothtrap.report.phases import phases_in_words
from mothtrap.report.record import duration
from mothtrap.report.simple_scores import scores_in_words
from mothtrap.report.style import (
    PLAIN,
    SEVERITY_COLORS,
    WIDTH,
    Style,
    count_of,
    ranges,
    wrapped,
)
from mothtrap.report.summary import RunSummary, problems_in

NAME = "mothtrap: "
MAX_ERRORS = 4
"""Root errors that are shown in full; chosen by hand: half a terminal."""
MAX_OTHERS = 4
"""Root warnings, and notes, that are named; chosen by hand."""
LONG_RUN_S = 600.0
"""Training time from which the overhead is a percentage; a shorter run gets seconds."""
WORTH_TIMING_S = 60.0
"""Training time from which the verdict lists its parts; chosen by hand."""
WORTH_NAMING = 0.0005
"""Share of the training time from which captures that a user requested are named: 0.1 % rounded."""
MAX_PART = 40
"""Characters of the name of a part that was not observed; chosen by hand: half a line."""
MAX_EFFECTS = 6
"""Maximum number of named effects of a root cause; chosen by hand."""


def verdict(summary: RunSummary, style: Style = PLAIN, *, shown: str = "") -> str:
    """Render the verdict as text.

    Every error that is a root cause has its own block, and every such warning its own line. Only
    `mothtrap show` prints the reasons of rules that lacked data, skipped captures, and costs.

    Args:
        summary: summary of the run.
        style: capabilities of the stream.
        shown: argument of `mothtrap show` that finds the run; if empty, the command is omitted.
    """
    roots = problems_in(summary)
    replay = replay_command(
        summary.called or summary.run.id, summary.snapshots, style, _root(summary)
    )
    following = [f"  next: {replay}"] if replay and not summary.failures else []
    crash = _wrap_all(
        failure_lines(summary.failures, summary.snapshots, summary.called or summary.run.id, style)
    )
    if roots:
        off = switched_off(summary.rules)
        lines = wrapped(NAME + style.safe(off), indent="  ") if off else []
        if summary.crash_leads:
            lines += [*_end_of_job(summary, style, "" if lines else NAME), *crash]
        lines += _problems(summary, roots, style, following, "" if summary.crash_leads else NAME)
        lines += [] if summary.crash_leads else _end_of_job(summary, style)
    else:
        lines = wrapped(NAME + style.safe(summary.verdict), indent="  ")
        lines = [style.paint(line, "bold") for line in lines]
        if not summary.known:
            lines += _notes(summary, style)
    lines += [] if roots and summary.crash_leads else crash
    lines += _wrap_all(guarded_lines(summary.guarded, style))
    lines += _wrap_all(ignored_lines(summary.ignored, style))
    lines += alarms(summary, style)
    lines += following if not roots else []
    if summary.simple is not None:
        lines += wrapped(f"  score: {style.safe(scores_in_words(summary.simple))}", indent="    ")
    if summary.phases and summary.overhead.wall_seconds >= WORTH_TIMING_S:
        lines += wrapped(f"  time: {phases_in_words(summary.phases)}", indent="    ")
    footer = _footer(summary, with_counts=bool(roots))
    if shown and not _is_bare(summary):
        command = "mothtrap -v show" if summary.tool_errors else "mothtrap show"  # with tracebacks
        footer.append(f"{command} {style.safe(shown)}")
    return "\n".join([*lines, *_in_rows(footer, " · " if style.glyphs else "; ")])


def _is_bare(summary: RunSummary) -> bool:
    """Return whether a run is empty because the script ended before any training."""
    told = summary.blind or summary.failures or summary.tool_errors or summary.damage
    return not (summary.run.steps or summary.run.workers or summary.findings or told)


def problem_lines(
    summary: RunSummary, story: Story, style: Style, *, prefix: str = "", whole: bool
) -> list[str]:
    """Return the lines about one root cause.

    Args:
        summary: summary of the run.
        story: root and effects.
        style: capabilities of the stream.
        prefix: text before the first line.
        whole: include location, effects, and advice.
    """
    by_fingerprint = {finding.fingerprint: finding for finding in summary.findings}
    root = by_fingerprint[story.root]
    passed = has_passed(root) and story.severity is Severity.INFO
    sign = style.safe("● passed:") if passed else style.glyph(story.severity)
    ranks = f", rank{'s' * (len(root.workers) > 1)} {ranges(root.workers)}" * _names_ranks(root)
    place = f" ({root.location})." if root.location else "."
    what = sentence_of(root).removesuffix(place) + ranks + "."
    indent = " " * (len(prefix) - len(prefix.lstrip()) + 2)
    plain = "+ passed:" if passed else "x"
    text = wrapped(f"{prefix}{plain} {root.code} {style.safe(what)}", indent=indent)
    color = SEVERITY_COLORS[story.severity]
    lines = [style.paint(line, color) for line in text]
    begin = text[0].index(root.code)
    lines[0] = f"{prefix}{sign} {style.paint(text[0][begin:], color)}"
    if not whole:
        return lines
    if root.location:
        lines.append(f"  --> {style.safe(root.location)}")
        source = summary.sources.get(root.location)
        lines += [f"      {style.safe(source)}"] if source else []
    effects = [by_fingerprint[name] for name in story.effects]
    led_to = [f for f in effects if f.step >= root.step]
    if led_to:
        lines += wrapped(f"  led to: {_effects(led_to)}", indent="    ")
    if others := [fault_name(f) for f in effects if f.step < root.step]:
        # Their steps are those at which they were first looked for, and no onset.
        lines += wrapped(f"  also explains: {', '.join(others)}", indent="    ")
    for line in clause_lines(summary.after_of(root), style, summary.run.unit):
        lines += wrapped(line, indent="    ")
    if root.fixes:
        lines += wrapped(f"  fix: {style.safe(root.fixes[0])}", indent="    ")
    return lines


def alarms(summary: RunSummary, style: Style) -> list[str]:
    """Return a line for each failed rule or part of mothtrap, and for damaged data.

    A failure that the verdict names is not repeated.
    """
    by_reason: dict[str, list[str]] = {}
    for rule in summary.in_state(RuleState.RULE_FAILED):
        by_reason.setdefault(rule.reason, []).append(f"{rule.code} {rule.name}")
    texts = [
        f"rule failed: {_first(names)}: {style.safe(reason)}" for reason, names in by_reason.items()
    ]
    texts += [
        f"mothtrap failed in {style.safe(own.part)} and switched it off: {style.safe(own.error)}"
        for own in summary.tool_errors
        if f"{own.part} ({own.error})" not in summary.verdict
    ]
    texts += [f"damaged: {style.safe(damage)}" for damage in summary.damage]
    return _wrap_all(f"  {text}" for text in texts)


def _first(names: Sequence[str]) -> str:
    left = len(names) - SHOWN_OFF
    return ", ".join(names[:SHOWN_OFF]) + (f" and {left} more" if left > 0 else "")


def overhead_in_short(cost: Overhead) -> str:
    """Return the overhead in words: seconds for a short run, percent for a long one."""
    plain_s = cost.wall_seconds - cost.seconds - cost.asked_seconds
    is_long = plain_s >= LONG_RUN_S
    text = (
        f"mothtrap added {_percent(100 * cost.added_seconds / plain_s)}"
        if is_long
        else (f"mothtrap added {duration(cost.added_seconds)}")
    )
    if cost.asked_ratio < WORTH_NAMING:
        return text
    asked = _percent(100 * cost.asked_ratio) if is_long else duration(cost.asked_seconds)
    return f"{text} + {asked} for captures you requested"


def _unobserved(summary: RunSummary) -> str:
    """Name the part that was not observed, or count the parts."""
    parts = list(dict.fromkeys(blind.what for blind in summary.blind))
    if len(parts) == 1 and len(parts[0]) <= MAX_PART:
        return f"not observed: {parts[0]}"
    return f"{count_of(len(parts), 'part')} not observed"


def _percent(share: float) -> str:
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def _problems(
    summary: RunSummary,
    roots: Sequence[Story],
    style: Style,
    following: Sequence[str],
    first: str,
) -> list[str]:
    """Return the lines on all root causes.

    The lines `first` are printed before the first cause, and `following` below it.
    """
    by_fingerprint = {finding.fingerprint: finding for finding in summary.findings}
    errors = [s for s in roots if by_fingerprint[s.root].severity is Severity.ERROR]
    others = [s for s in roots if s not in errors]
    told = [(s, True) for s in errors[:MAX_ERRORS]]
    told += [(s, not told and place == 0) for place, s in enumerate(others[:MAX_OTHERS])]
    lines: list[str] = []
    for story, whole in told:
        prefix = "" if lines else first
        below = [] if lines else following
        lines += [*problem_lines(summary, story, style, prefix=prefix, whole=whole), *below]
    left = len(roots) - len(told)
    return lines + ([f"  and {count_of(left, 'more problem')}"] if left else [])


def _end_of_job(summary: RunSummary, style: Style, prefix: str = "  ") -> list[str]:
    """Return how a job ended that failed."""
    if not summary.ending:
        return []
    lines = wrapped(f"{prefix}{style.safe(summary.ending)}", indent="  ")
    return [style.paint(line, "bold") for line in lines] if summary.crash_leads else lines


def _notes(summary: RunSummary, style: Style) -> list[str]:
    lines: list[str] = []
    for story in summary.diagnosis[:MAX_OTHERS]:
        lines += problem_lines(summary, story, style, prefix="  ", whole=False)
    left = len(summary.diagnosis) - MAX_OTHERS
    return lines + ([f"  and {count_of(left, 'more note')}"] if left > 0 else [])


def _effects(effects: list[Finding]) -> str:
    text = ", ".join(
        f"{fault_name(f)} ({f.began}{'; passed' * has_passed(f)})" for f in effects[:MAX_EFFECTS]
    )
    left = len(effects) - MAX_EFFECTS
    return text + (f" and {left} more" if left > 0 else "")


def _footer(summary: RunSummary, *, with_counts: bool) -> list[str]:
    found = []
    if with_counts:
        counts = [count_of(summary.count(s), noun) for s, noun in _NOUNS if summary.count(s)]
        found.append(f"{', '.join(counts)} in {count_of(summary.run.steps, summary.run.unit)}")
        workers = len(summary.run.workers)
        if workers > 1:
            found[0] += f" of {workers} ranks"
        if summary.known:
            found.append(f"{count_of(summary.known, 'known finding')} hidden")
    if summary.blind and summary.run.steps:
        found.append(_unobserved(summary))
    if summary.run.steps and summary.run.kind.has_overhead:
        found.append(overhead_in_short(summary.overhead))
    return found


_NOUNS = ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "note"))


def _names_ranks(finding: Finding) -> bool:
    """Return whether ranks should be added, because the message does not name them."""
    return finding.workers not in ((), (0,)) and not re.search(r"\branks? \d", finding.message)


def _root(summary: RunSummary) -> Finding | None:
    """Return the finding with which the verdict opens."""
    root = summary.diagnosis[0].root if summary.diagnosis else None
    return next((f for f in summary.findings if f.fingerprint == root), None)


def _in_rows(parts: Iterable[str], separator: str) -> list[str]:
    """Join parts into lines without breaking a part."""
    rows: list[str] = []
    for part in parts:
        if rows and len(rows[-1]) + len(separator) + len(part) <= WIDTH:
            rows[-1] += separator + part
        else:
            rows.append(f"  {part}")
    return rows


def _wrap_all(lines: Iterable[str]) -> list[str]:
    """Wrap lines, with continuation lines indented by two more columns."""
    found: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        found += wrapped(line, indent=indent)
    return found
