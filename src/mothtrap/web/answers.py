"""Answers about a run for the page: facts, findings, available curves, lines of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core.diagnosis import Story
from mothtrap.core.documented import Documented
from mothtrap.core.errors import MothtrapError
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.marks import Mark
from mothtrap.core.probed import Probed
from mothtrap.core.rule import Rule
from mothtrap.core.runs import Overhead, RuleStatus
from mothtrap.core.served import Served
from mothtrap.core.steps import Mode
from mothtrap.reader.files.statistic_rows import StatisticRows
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.reader.run import Run
from mothtrap.report.aftermath import since_then
from mothtrap.report.cost import cost_of
from mothtrap.report.ending import ending_word
from mothtrap.report.failures import Failure
from mothtrap.report.guarded import guarded_lines
from mothtrap.report.kept import kept_lines
from mothtrap.report.machine import MachineRow
from mothtrap.report.phases import phases_in_words
from mothtrap.report.style import Style
from mothtrap.report.summary import RunSummary, counted, size_of
from mothtrap.statistics.summary import STATISTICS
from mothtrap.store.marks import read_marks
from mothtrap.web.axes import axes
from mothtrap.web.gaps import gaps
from mothtrap.web.known_rules import known_rules
from mothtrap.web.opened import OpenRun
from mothtrap.web.row_reading import last_activity_s, shown_command
from mothtrap.web.series import scalar_names, tensor_curve_name

WORST = 8
"""Tensors that the first page shows."""
EVIDENCE_CURVES = 4
SAMPLE_ROWS = 50_000
"""Rows of statistics that are looked at to say which there are; chosen by hand."""
MAX_LINE = 200
RATE_STEPS = 50
"""Last steps from whose times the pace is known; chosen by hand."""


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a run. Times are Unix seconds, 0 = unknown; `rate` is in steps a second.

    `kind` is that of `core.runs.RunKind`, `unit` is what a step is called. The `steps` of a probe
    or serve run are rows or predictions. `size` says how many there are, in words. `gaps` are
    stretches of steps that were not watched, `guarded` says what the guard did. `losses` are
    curves; metrics in a run that has no loss.
    """

    name: str
    id: str
    kind: str
    path: str
    state: str
    ending: str
    verdict: str
    severity: str
    steps: int
    size: str
    probed: Probed | None
    files: tuple[str, ...]
    served: Served | None
    attempts: int
    workers: tuple[int, ...]
    started_s: float
    ended_s: float
    active_s: float
    now_s: float
    rate: float
    command: str
    cwd: str
    host: str
    python: str
    mothtrap: str
    commit: str
    overhead: Overhead
    gaps: tuple[tuple[int, int], ...]
    time: str
    cost: str
    failures: tuple[Failure, ...]
    traceback: str
    guarded: tuple[str, ...]
    notes: tuple[str, ...]
    replay: str
    replayed: tuple[str, ...]
    called: str
    unit: str
    losses: tuple[str, ...]
    axes: tuple[str, ...]
    machine: tuple[MachineRow, ...]
    cursor: str
    controls: tuple[str, ...]


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor or layer that a finding names, and a curve that shows it ("" = none)."""

    layer: str
    fingerprint: str
    severity: str
    code: str
    curve: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, what its rule is about, the curves that it was judged by, and its line of source.

    `line` is "" where the file is not as the run noted it. `after` says what came after the onset.
    """

    finding: Finding
    summary: str
    curves: tuple[str, ...]
    line: str
    after: str


class FindingsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Stories, the worst first, findings and marks by fingerprint, and the state of every rule."""

    stories: tuple[Story, ...]
    findings: dict[str, Told]
    rules: tuple[RuleStatus, ...]
    worst: tuple[Worst, ...]
    marks: dict[str, Mark]
    cursor: str


class NamesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Available curves: of scalars, and of tensors and statistics by kind."""

    scalars: tuple[str, ...]
    tensors: dict[str, list[str]]
    statistics: dict[str, list[str]]
    axes: tuple[str, ...]
    modes: tuple[str, ...]


def run_answer(
    opened: OpenRun, name: str, now_s: float, controls: Callable[[bool], tuple[str, ...]]
) -> RunAnswer:
    """Return the facts of a run.

    Args:
        opened: the run.
        name: under which the page knows it.
        now_s: Unix time of the server: the page's clock may differ.
        controls: says what can be asked, given whether the job runs.
    """
    run, summary = opened.run, opened.summary
    info, end = run.info, run.end
    worst = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    return RunAnswer(
        name=name,
        id=run.id,
        kind=run.kind,
        path=str(run.path),
        state=run.state,
        ending=ending_word(run),
        verdict=summary.verdict,
        severity=worst.value if worst is not None else "",
        steps=counted(run)[0],
        size=size_of(run),
        probed=run.probed,
        files=summary.files,
        served=run.served,
        attempts=run.attempts,
        workers=run.workers,
        started_s=info.created_s if info else 0.0,
        ended_s=end.ended_s if end else 0.0,
        active_s=last_activity_s(run),
        now_s=now_s,
        rate=pace(run),
        command=shown_command(info.command) if info else "",
        cwd=info.cwd if info else "",
        host=info.host if info else "",
        python=info.python if info else "",
        mothtrap=info.mothtrap if info else "",
        commit=_commit(run),
        overhead=summary.overhead,
        gaps=gaps(run),
        cost=cost_of(summary),
        time=phases_in_words(summary.phases),
        failures=summary.failures,
        traceback=summary.traceback,
        guarded=tuple(line.strip() for line in guarded_lines(summary.guarded, Style())),
        notes=tuple(_notes(summary)),
        replay=_replay(summary),
        replayed=summary.replay.told() if summary.replay is not None else (),
        called=summary.called or run.id,
        unit=counted(run)[1],
        losses=_losses(run),
        axes=tuple(axes(run)),
        machine=opened.machine,
        cursor=run.cursor,
        controls=controls(run.state == "running"),
    )


def _losses(run: Run) -> tuple[str, ...]:
    """Curves of the losses; of boosting, which has none, those of the metrics."""
    scalars = scalar_names(run)
    losses = tuple(curve for curve, (name, _, _) in scalars.items() if name == "loss")
    return losses or tuple(
        curve
        for curve, (name, _, mode) in scalars.items()
        if mode is Mode.EVAL or name.startswith("train.")
    )


def findings_answer(opened: OpenRun) -> FindingsAnswer:
    """Return what was found in a run."""
    summary = opened.summary
    rules = known_rules()
    tensors = [tensor.info for tensor in opened.run.tensors()]
    by_layer: dict[str, list[tuple[str, str]]] = {}
    for info in tensors:
        for layer in {info.name, info.module}:
            by_layer.setdefault(layer, []).append((info.kind, info.name))
    lines = opened.source_lines
    told = {}
    for finding in summary.findings:
        rule = rules.get(finding.code)
        curves = tuple(_evidence(opened.run, finding, rule, by_layer))
        text = rule.doc().summary if rule else ""
        told[finding.fingerprint] = Told(
            finding=finding,
            summary=text,
            curves=curves,
            line=lines.get(finding.location or "", "")[:MAX_LINE],
            after=since_then(summary.after_of(finding), summary.run.unit),
        )
    return FindingsAnswer(
        stories=summary.diagnosis,
        findings=told,
        rules=summary.rules,
        worst=tuple(_worst(summary, rules, by_layer)),
        marks=read_marks(opened.path),
        cursor=opened.run.cursor,
    )


def names_answer(opened: OpenRun) -> NamesAnswer:
    """Return what can be drawn of a run."""
    run = opened.run
    tensors: dict[str, list[str]] = {}
    for tensor in run.tensors():
        tensors.setdefault(tensor.kind, []).append(tensor.name)
    return NamesAnswer(
        scalars=tuple(scalar_names(run)),
        tensors=tensors,
        statistics=_statistics(run),
        axes=tuple(axes(run)),
        modes=tuple(mode.value for mode in run.modes),
    )


def _statistics(run: Run) -> dict[str, list[str]]:
    """Return the captured statistics of each kind, by the first rows of each worker."""
    found: dict[str, set[str]] = {}
    for part in run.parts() if run.workers else []:
        rows = 0
        names, kind_T = _kinds(part.view)
        for piece in StatisticRows(part.view.folder).poll_fields(part.view.commits):
            tensor_N = piece.tensor_N
            kind_N = kind_T[np.minimum(tensor_N, len(kind_T) - 1)]
            there = {name: ~np.isnan(piece.field(name)) for name in piece.fields}
            for number, kind in enumerate(names):
                columns = {
                    name for name, there_N in there.items() if there_N[kind_N == number].any()
                }
                found.setdefault(kind, set()).update(columns)
            rows += len(tensor_N)
            if rows > SAMPLE_ROWS:
                break
    return {
        kind: [s for s in STATISTICS if s in _derivable(columns)] for kind, columns in found.items()
    }


def _kinds(view: WorkerView) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the kinds of tensors, and the index of each tensor's kind; the last is of none."""
    names = list(dict.fromkeys(info.kind for info in view.tensors.values()))
    kind_T = np.full(max(view.tensors, default=0) + 2, -1, np.int64)
    for number, info in view.tensors.items():
        kind_T[number] = names.index(info.kind)
    return names, kind_T


def _derivable(columns: set[str]) -> set[str]:
    found = set(columns) - {"count"}
    if "deviation_l2" in columns:
        found.add("std")
    if "abs_sum" in columns:
        found.add("abs_mean")
    if {"min", "max"} <= columns:
        found.add("abs_max")
    return found


def _evidence(
    run: Run,
    finding: Finding,
    rule: type[Documented] | None,
    by_layer: dict[str, list[tuple[str, str]]],
) -> Iterator[str]:
    """Names of the curves that a finding was judged by, as far as its rule says what it needs."""
    found = dict.fromkeys(
        name
        for layer in finding.layers[:EVIDENCE_CURVES]
        for name in _layer_curves(layer, finding, rule, by_layer)
    )
    yield from list(found)[:EVIDENCE_CURVES]
    if found:
        return
    names = scalar_names(run)
    series = finding.evidence.get("series")
    chosen = [name for name, s in names.items() if s[0] == "loss" and series in (None, s[1])]
    yield from (chosen or [n for n, s in names.items() if s[0] == "loss"])[:EVIDENCE_CURVES]


def _layer_curves(
    layer: str,
    finding: Finding,
    rule: type[Documented] | None,
    by_layer: dict[str, list[tuple[str, str]]],
) -> Iterator[str]:
    for need in rule.needs if rule is not None and issubclass(rule, Rule) else ():
        for kind, tensor in by_layer.get(layer, []):
            if kind in need.kinds and need.statistics:
                yield tensor_curve_name(kind, need.statistics[0], tensor, finding.mode)


def _worst(
    summary: RunSummary,
    rules: dict[str, type[Documented]],
    by_layer: dict[str, list[tuple[str, str]]],
) -> Iterator[Worst]:
    """The layers that findings name, the worst finding first."""
    seen: set[str] = set()
    for finding in summary.findings:
        if finding.severity is Severity.INFO:
            continue
        for layer in finding.layers:
            if layer in seen or len(seen) >= WORST:
                continue
            seen.add(layer)
            curves = _layer_curves(layer, finding, rules.get(finding.code), by_layer)
            yield Worst(
                layer=layer,
                fingerprint=finding.fingerprint,
                severity=finding.severity.value,
                code=finding.code,
                curve=next(curves, ""),
            )


def pace(run: Run) -> float:
    """Return the steps a second of the last steps, 0 where that is not known."""
    parts = run.parts() if run.workers else []
    if not parts:
        return 0.0
    row_N = parts[-1].commits(Mode.TRAIN)[-RATE_STEPS:]
    if len(row_N) < 2:
        return 0.0
    commits = parts[-1].view.commits
    seconds = float(commits.wall_s[row_N[-1]] - commits.wall_s[row_N[0]])
    steps = int(commits.steps[row_N[-1]] - commits.steps[row_N[0]])
    return steps / seconds if seconds > 0 else 0.0


def _replay(summary: RunSummary) -> str:
    """The command that replays the step that tells most, or ""."""
    root = summary.diagnosis[0].root if summary.diagnosis else None
    first = next((f for f in summary.findings if f.fingerprint == root), None)
    lines = kept_lines(summary.called or summary.run.id, summary.snapshots, Style(), first)
    _, found, command = lines[0].partition("mothtrap replay ") if lines else ("", "", "")
    return found + command


def _notes(summary: RunSummary) -> Iterator[str]:
    for failed in summary.tool_errors:
        yield f"mothtrap failed in {failed.part}: {failed.error}"
    for lost in summary.not_kept:
        yield f"{lost.count:,} {lost.what} were not stored: {lost.reason}"
    for text in summary.damage:
        yield f"damaged: {text}"
    for ignored in summary.ignored:
        yield f"{ignored.setting} had no effect: {ignored.reason}"
    for unseen in summary.blind:
        yield f"{unseen.what} was not observed: {unseen.reason}"


def _commit(run: Run) -> str:
    try:
        source = run.source
    except MothtrapError:
        return ""
    if source is None or not source.commit:
        return ""
    changed = f" + {source.changed_count} changed files" if source.changed_count else ""
    return source.commit[:8] + changed
