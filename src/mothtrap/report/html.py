"""A run as one HTML file: no script, no request, readable in any browser and on paper."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from mothtrap.core.diagnosis import fault_name, when
from mothtrap.core.findings import EvidenceValue, Finding, RuleState, Severity
from mothtrap.core.runs import RunKind
from mothtrap.core.texts import layer_in_words
from mothtrap.report import boosting_page, checked_page
from mothtrap.report.aftermath import since_then
from mothtrap.report.chart import series_chart
from mothtrap.report.cost import cost_of
from mothtrap.report.document import Document
from mothtrap.report.failures import MAX_FAILURES, Failure
from mothtrap.report.guarded import guarded_lines
from mothtrap.report.kept import replay_command
from mothtrap.report.style import SEVERITY_GLYPHS, STATE_GLYPHS, Style, count_of

MAX_BYTES = 5 << 20
"""Size that a report has at most; beyond it pictures, then evidence, then effects are left out."""
MAX_TEXT = 2_000
"""Maximum number of characters of a text of a run; chosen by hand."""
MAX_LAYERS = 8
MAX_CONDITIONS = 200
_CODE = re.compile(r"`([^`]+)`")
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def page(document: Document) -> str:
    """Render a run as an HTML document of at most `MAX_BYTES`.

    If it is too large, images of the record are omitted first, then the evidence of effects, then
    effects. The page mentions this.
    """
    for effects, evidence, pictures in (
        *((10_000, True, True), (10_000, True, False), (10_000, False, False)),
        *((3, False, False), (0, False, False)),
    ):
        text = _page(document, effects, evidence=evidence, pictures=pictures)
        if len(text.encode()) <= MAX_BYTES:
            return text
    return text


def _page(document: Document, effects: int, *, evidence: bool, pictures: bool) -> str:
    summary, record = document.summary, document.record
    recorded = (record.whole if pictures else record.light) if record is not None else ""
    checked = checked_page.section(
        document.checked, {rule.code: rule.name for rule in summary.rules}
    )
    boosted = boosting_page.section(summary.boosted)
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    cost = cost_of(summary)
    overhead = f" Overhead: {_safe(cost)}" if cost else ""
    run, made = summary.run, time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(document.made_s))
    workers = f", {len(run.workers)} ranks" if len(run.workers) > 1 else ""
    watched = "" if document.watched is None else f", watched {document.watched:,}"
    kind = "" if run.kind is RunKind.TRAIN else f" · {run.kind}"
    left = (
        "" if evidence else '<p class="soft">Details of effects are omitted to limit the size.</p>'
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{_safe(run.id)} – mothtrap</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{_safe(run.id)}{kind} · {_safe(run.state)} · "
        f"{count_of(run.steps, run.unit)}{watched}{workers}</h1>"
        f"{_verdict(document)}</header>"
        f"{_losses(document)}{left}{_stories(document, effects, evidence=evidence)}"
        f"{_layers(document)}{_heatmap(document)}{checked}{_rules(document)}{boosted}{recorded}{_ignored(document)}{_blind(document)}{_machine(document)}{_conditions(document)}"
        f'<footer><p class="soft">Created by mothtrap on {made}.{overhead}</p></footer>'
        "</main></body></html>\n"
    )


def _verdict(document: Document) -> str:
    summary = document.summary
    worst = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    kind = worst.value if worst not in (None, Severity.INFO) else ""
    crashed = summary.run.state == "crashed"
    healthy = "‼" if crashed else STATE_GLYPHS[RuleState.OK]
    symbol = SEVERITY_GLYPHS[worst] if worst is not None and kind else healthy
    head = summary.verdict
    if summary.crash_leads:  # the findings follow below
        kind, symbol, head = "error", "‼", summary.ending
    kind = kind or ("error" if crashed else "")
    parts = [f'<p class="verdict {kind}">{symbol} {_safe(head)}</p>']
    parts += [f"<p>Damaged: {_safe(text)}</p>" for text in summary.damage]
    parts += [_explained(failure) for failure in summary.failures[:MAX_FAILURES]]
    for story, root, _ in document.stories[: 0 if summary.crash_leads else 1]:
        if story.severity is Severity.INFO:
            break
        if root.fixes:
            parts.append(f"<p><strong>Fix:</strong> {_prose(root.fixes[0])}</p>")
        if root.has_step:
            parts.append(
                f"<p>Began at: <strong>{root.began}</strong>{_where(root)}; "
                f"confidence {_safe(root.confidence)}</p>"
            )
    parts += [f"<p>{_safe(line.strip())}</p>" for line in guarded_lines(summary.guarded, Style())]
    if summary.traceback:
        parts.append(f"<p>How it ended:</p><pre>{_safe(summary.traceback.rstrip())}</pre>")
    replay = _replay(document)
    return "".join([*parts, replay])


def _explained(failure: Failure) -> str:
    """Return the explanation of an exception, and its first fix."""
    fix = f"<p><strong>Fix:</strong> {_prose(failure.fixes[0])}</p>" if failure.fixes else ""
    return f"<p>{_prose(failure.sentence)}</p>{fix}"


def _replay(document: Document) -> str:
    summary = document.summary
    if summary.replay is not None:
        lines = "\n".join(map(_safe, summary.replay.told()))
        return f"<p>Result of the replay:</p><pre>{lines}</pre>"
    root = document.stories[0][1] if document.stories else None
    called = summary.called or summary.run.id
    command = replay_command(called, summary.snapshots, Style(), root)
    return f"<p>Replay this step:</p><pre>{_safe(command)}</pre>" if command else ""


def _where(finding: Finding) -> str:
    where = ""
    if finding.layers:
        name = finding.layers[0]
        word = layer_in_words(name).removesuffix(name)  # "layer " before a number
        where = f" in {word}<code>{_safe(name)}</code>"
    place = f", <code>{_safe(finding.location)}</code>" if finding.location else ""
    return where + place


def _losses(document: Document) -> str:
    roots = [root for _, root, _ in document.stories]
    others = [f for f in document.summary.findings if f not in roots]
    chart = series_chart(document.losses, [*roots, *others])
    workers = document.summary.run.workers
    head = f"<h2>Loss{f' of rank {workers[0]}' if len(workers) > 1 else ''}</h2>"
    return head + (chart or '<p class="soft">No loss was recorded.</p>')


def _stories(document: Document, effects: int, *, evidence: bool) -> str:
    stories = document.stories
    known = document.summary.known
    left = count_of(known, "known finding")
    rest = f'<p class="soft">Hidden: {left} in the baseline.</p>' if known else ""
    if not stories:
        return f"<h2>Findings</h2><p>No findings.</p>{rest}"
    parts = [f"<h2>Findings ({len(document.summary.findings)})</h2>"]
    for _, root, followed in stories:
        inner = "".join(
            _finding(effect, document, evidence=evidence) for effect in followed[:effects]
        )
        more = len(followed) - effects
        if followed:
            names = ", ".join(dict.fromkeys(f.code for f in followed[:20]))
            inner += f"<p>… and {more} more</p>" if more > 0 else ""
            inner = f"<details><summary>Led to: {_safe(names)}</summary>{inner}</details>"
        parts.append(_finding(root, document, inner))
    return "".join([*parts, rest])


def _finding(
    finding: Finding, document: Document, inner: str = "", *, evidence: bool = True
) -> str:
    kind = finding.severity.value
    onset = when(finding)
    counted = "captured steps" if finding.has_step else "calls"
    extent = f", at {finding.count:,} {counted}" if finding.count > 1 else ""
    ranks = (
        ""
        if finding.workers in ((), (0,))
        else f", rank{'s' * (len(finding.workers) > 1)} {_joined(finding.workers)}"
    )
    since = since_then(document.summary.after_of(finding), document.summary.run.unit)
    parts = [
        f'<h3 class="{kind}">{SEVERITY_GLYPHS[finding.severity]} {_safe(finding.code)} '
        f"{_safe(fault_name(finding))}</h3>",
        f'<p class="soft">{kind}{onset}{extent}{ranks}</p>',
        f"<p>{_safe(finding.message)}</p>",
        *([f'<p class="soft">Lasted: {_safe(since)}</p>'] if since else []),
    ]
    if finding.layers:
        more = len(finding.layers) - MAX_LAYERS
        names = ", ".join(f"<code>{_safe(name)}</code>" for name in finding.layers[:MAX_LAYERS])
        parts.append(f"<p>In {names}{f' and {more} more' if more > 0 else ''}</p>")
    if finding.location:
        parts.append(_source(finding.location, document))
    if finding.why:
        parts.append(f"<p>{_prose(finding.why)}</p>")
    if finding.fixes and not finding.caused_by:
        fixes = "".join(f"<li>{_prose(fix)}</li>" for fix in finding.fixes)
        parts.append(f"<p><strong>Fix</strong></p><ul>{fixes}</ul>")
    if evidence and finding.evidence:
        known = {name: value for name, value in finding.evidence.items() if value is not None}
        rows = _rows((name.replace("_", " "), _value(value)) for name, value in known.items())
        parts.append(document.charts.get(finding.fingerprint, ""))
        shown = "" if finding.caused_by else " open"
        parts.append(f"<details{shown}><summary>Evidence</summary><table>{rows}</table></details>")
    return f'<article class="{kind[0]}">{"".join(parts)}{inner}</article>'


def _source(location: str, document: Document) -> str:
    """Render a location with the lines of the script around it, or with only its own line."""
    excerpt = document.excerpts.get(location)
    if excerpt is None:
        line = document.summary.sources.get(location, "")
        return f"<pre>{_safe(location)}{': ' + _safe(line) if line else ''}</pre>"
    lines = []
    for number, line in enumerate(excerpt.lines, start=excerpt.first):
        text = f"{number:5}  {_safe(line)}"
        lines.append(f"<mark>{text}</mark>" if number == excerpt.line else text)
    return f"<p><code>{_safe(location)}</code></p><pre>" + "\n".join(lines) + "</pre>"


def _layers(document: Document) -> str:
    """Return the table of the layers, or features, that findings name."""
    if all(each.last is None for each in document.layers):
        return ""
    rows = "".join(
        f"<tr><th><code>{_safe(each.name)}</code></th>"
        f'<td class="{each.severity.value}">{SEVERITY_GLYPHS[each.severity]} '
        f"{_safe(each.code)}</td>"
        f"<td>{_safe(each.quantity)}</td>"
        f'<td class="n">{"" if each.last is None else f"{each.last:.4g}"}</td></tr>'
        for each in document.layers
    )
    noun = "features" if document.summary.run.unit == "round" else "layers"
    heads = '<tr><th></th><th>finding</th><th>quantity</th><th class="n">last value</th></tr>'
    return f"<h2>Worst {noun}</h2><table>{heads}{rows}</table>"


def _heatmap(document: Document) -> str:
    return f"<h2>Gradients by layer</h2>{document.heatmap}" if document.heatmap else ""


def _of_state(count: int, state: RuleState) -> str:
    """Return `3 errors`, but `20 ok`: only some states are nouns."""
    words = state.replace("_", " ")
    is_noun = state in (RuleState.ERROR, RuleState.WARNING)
    return count_of(count, words) if is_noun else f"{count:,} {words}"


def _rules(document: Document) -> str:
    rules = document.summary.rules
    counts = Counter(rule.state for rule in rules)
    said = " · ".join(
        f"{STATE_GLYPHS[state]} {_of_state(counts[state], state)}"
        for state in STATE_GLYPHS
        if counts[state]
    )
    rows = "".join(
        f"<tr><th>{_safe(rule.code)}</th><td>{_safe(rule.name.replace('_', ' '))}</td>"
        f"<td>{STATE_GLYPHS[rule.state]} {rule.state.replace('_', ' ')}</td>"
        f"<td>{_safe(rule.reason)}</td></tr>"
        for rule in sorted(rules, key=lambda r: (list(STATE_GLYPHS).index(r.state), r.code))
    )
    return (
        f"<h2>Rules ({len(rules)})</h2><p>{said or 'No rule was selected.'}</p>"
        f"<details><summary>All rules</summary><table>{rows}</table></details>"
    )


def _ignored(document: Document) -> str:
    found = document.summary.ignored
    if not found:
        return ""
    rows = _rows((one.setting, one.reason) for one in found)
    return f"<h2>Settings without effect</h2><table>{rows}</table>"


def _blind(document: Document) -> str:
    seen = document.summary.blind
    if not seen:
        return ""
    rows = _rows((item.what, item.reason) for item in seen)
    return f"<h2>Not observed</h2><table>{rows}</table>"


def _machine(document: Document) -> str:
    if not document.machine:
        return ""
    rows = "".join(
        f"<tr><th>{row.what}</th><td>{row.median}</td><td>{row.p95}</td><td>{row.most}</td></tr>"
        for row in document.machine
    )
    heads = "<tr><th></th><th>median</th><th>95th percentile</th><th>maximum</th></tr>"
    return f"<h2>Machine</h2><table>{heads}{rows}</table>"


def _conditions(document: Document) -> str:
    if not document.conditions:
        return ""
    rows = _rows(list(document.conditions.items())[:MAX_CONDITIONS])
    return (
        "<h2>Conditions</h2><details><summary>Settings and environment of the run</summary>"
        f"<table>{rows}</table></details>"
    )


def _rows(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in pairs
    )


def _value(value: EvidenceValue) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(_value(part) for part in value[:50]) + " …" * (len(value) > 50)
    return str(value)


def _joined(numbers: Iterable[int]) -> str:
    listed = sorted(numbers)
    return ", ".join(map(str, listed[:8])) + " …" * (len(listed) > 8)


def _prose(text: str) -> str:
    """Return advice; text between backticks is code."""
    return _CODE.sub(r"<code>\1</code>", _safe(text))


def _safe(text: str) -> str:
    """Make a text of the run safe for a page: escaped, printable, and truncated."""
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in cut)
    return html.escape(shown)
