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
from mothtrap.core.runs import Overhead, RuleStatus
from mothtrap.core.served import Served
from mothtrap.core.steps import Mode
from mothtrap.reader.files.statistic_rows import StatisticRows
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.reader.gaps import gaps
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
from mothtrap.report.worker_table import WorkerTable, worker_table
from mothtrap.statistics.summary import STATISTICS
from mothtrap.store.marks import read_marks
from mothtrap.web.axes import axes
from mothtrap.web.evidence import (
    ByLayer,
    EvidenceChart,
    Ranks,
    chart_of,
    layer_curves,
    ranks_of,
    tensors_by_layer,
)
from mothtrap.web.filled_views import filled_views
from mothtrap.web.histograms import tensors_with_histograms
from mothtrap.web.known_rules import known_rules
from mothtrap.web.machine_curves import machine_names
from mothtrap.web.opened import OpenRun
from mothtrap.web.row_reading import last_activity_s, shown_command
from mothtrap.web.series import scalar_names

WORST = 8
"""Tensors that the first page shows."""
MOST_WORKERS = 32
"""Workers that the first page shows; chosen by hand."""
SAMPLE_ROWS = 50_000
"""Number of rows that are inspected to list the available statistics; chosen by hand."""
MAX_LINE = 200
RATE_STEPS = 50
"""Last steps from whose times the pace is known; chosen by hand."""


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a run. Times are Unix seconds, 0 = unknown; `rate` is in steps a second.

    `views` are the views for which the run has data, among the views that may be empty. `kind` is a
    `core.runs.RunKind`; `unit` is the name of a step. The `steps` of a probe or serve run are rows
    or predictions. `size` is their number, in words. `crew` contains the workers of a job with
    several workers. `gaps` are ranges of steps that were not watched; `guarded` describes the
    guard's actions. `losses` are curves, or metrics in a run without a loss. `crash_leads` means
    that the verdict begins with the exception; `end_of_job` is a sentence on a job that failed;
    `failed_lines` are the lines of code of `failures`, by location.
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
    crew: WorkerTable | None
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
    crash_leads: bool
    end_of_job: str
    failed_lines: dict[str, str]
    guarded: tuple[str, ...]
    notes: tuple[str, ...]
    replay: str
    replayed: tuple[str, ...]
    called: str
    unit: str
    losses: tuple[str, ...]
    axes: tuple[str, ...]
    machine: tuple[MachineRow, ...]
    views: tuple[str, ...]
    cursor: str
    controls: tuple[str, ...]


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor or layer named by a finding, and a curve that shows it ("" = none)."""

    layer: str
    fingerprint: str
    severity: str
    code: str
    curve: str


class AboutRule(msgspec.Struct, frozen=True, kw_only=True):
    """Sections of a rule's documentation."""

    summary: str
    detects: str
    fires: str
    quiet: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, its rule, the chart that proves it, and its line of source.

    `tensor` is the `kind:name` of a tensor with the fault, "" without one. `line` is "" if the file
    differs from the run's record. `after` describes the time after the onset.
    """

    finding: Finding
    rule: AboutRule | None
    chart: EvidenceChart
    ranks: Ranks | None
    tensor: str
    line: str
    after: str


class FindingsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Stories, worst first; findings and marks by fingerprint; and the state of every rule."""

    stories: tuple[Story, ...]
    findings: dict[str, Told]
    rules: tuple[RuleStatus, ...]
    worst: tuple[Worst, ...]
    marks: dict[str, Mark]
    cursor: str


class NamesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Available curves: of scalars, of the machine, and of tensors and statistics by kind.

    `histograms` are the modules of the tensors that have any, by kind and name.
    """

    scalars: tuple[str, ...]
    machine: tuple[str, ...]
    tensors: dict[str, list[str]]
    statistics: dict[str, list[str]]
    histograms: dict[str, dict[str, str]]
    axes: tuple[str, ...]
    modes: tuple[str, ...]


def run_answer(
    opened: OpenRun, name: str, now_s: float, controls: Callable[[bool], tuple[str, ...]]
) -> RunAnswer:
    """Return the facts of a run for the page.

    Args:
        opened: the run.
        name: name of the run on the page.
        now_s: Unix time of the server: the page's clock may differ.
        controls: returns the possible requests, given whether the job is running.
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
        crew=_crew(run),
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
        crash_leads=summary.crash_leads,
        end_of_job=summary.ending,
        failed_lines={
            failure.location: summary.sources[failure.location]
            for failure in summary.failures
            if failure.location in summary.sources
        },
        guarded=tuple(line.strip() for line in guarded_lines(summary.guarded, Style())),
        notes=tuple(_notes(summary)),
        replay=_replay(summary),
        replayed=summary.replay.told() if summary.replay is not None else (),
        called=summary.called or run.id,
        unit=counted(run)[1],
        losses=losses_of(run),
        axes=tuple(axes(run)),
        machine=opened.machine,
        views=filled_views(run),
        cursor=run.cursor,
        controls=controls(run.state == "running"),
    )


def _crew(run: Run) -> WorkerTable | None:
    """Return the workers of a job of several."""
    workers = run.worker_states
    return worker_table(workers, MOST_WORKERS) if workers.expected > 1 else None


def losses_of(run: Run) -> tuple[str, ...]:
    """Return the curves of the losses, or of the metrics if there are no losses.

    The training loss of boosted trees ends with the name of its metric (`booster train logloss`);
    the same metric of evaluation tables belongs to it.
    """
    scalars = scalar_names(run)
    losses = tuple(curve for curve, (name, _, _) in scalars.items() if name == "loss")
    metrics = {of.rpartition(" ")[2] for name, of, _ in scalars.values() if name == "loss"}
    evaluated = tuple(
        curve for curve, (name, _, mode) in scalars.items() if mode is Mode.EVAL and name in metrics
    )
    return losses + evaluated or tuple(
        curve
        for curve, (name, _, mode) in scalars.items()
        if mode is Mode.EVAL or name.startswith("train.")
    )


def findings_answer(opened: OpenRun) -> FindingsAnswer:
    """Return the findings of a run."""
    summary = opened.summary
    rules = known_rules()
    by_layer = tensors_by_layer([tensor.info for tensor in opened.run.tensors()])
    losses = losses_of(opened.run)
    lines = opened.source_lines
    told = {}
    for finding in summary.findings:
        rule = rules.get(finding.code)
        chart = chart_of(opened, finding, rule, by_layer, losses)
        told[finding.fingerprint] = Told(
            finding=finding,
            rule=_about(rule),
            chart=chart,
            ranks=ranks_of(opened, finding, rule),
            tensor=_tensor(finding, chart, by_layer),
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


def _about(rule: type[Documented] | None) -> AboutRule | None:
    if rule is None:
        return None
    doc = rule.doc()
    return AboutRule(
        summary=doc.summary,
        detects=" ".join(doc.sections.get("What it detects", "").split()),
        fires=" ".join(doc.sections.get("Fires", "").split()),
        quiet=" ".join(doc.sections.get("Stays quiet", "").split()),
    )


def _tensor(finding: Finding, chart: EvidenceChart, by_layer: ByLayer) -> str:
    """Return a tensor that a finding is about, of the kind that its chart shows."""
    shown = {tuple(name.split("/", 2)) for name in chart.curves if name.count("/") > 1}
    found = [info for layer in finding.layers[:1] for info in by_layer.get(layer, ())]
    drawn = [
        info
        for info in found
        if any(what.startswith(f"{info.kind}.") and name == info.name for _, what, name in shown)
    ]
    kinds = {what.partition(".")[0] for _, what, _ in shown}
    alike = [info for info in found if info.kind in kinds]
    return next((f"{info.kind}:{info.name}" for info in (*drawn, *alike, *found)), "")


def names_answer(opened: OpenRun) -> NamesAnswer:
    """Return the names of all curves and tensors of a run."""
    run = opened.run
    tensors: dict[str, list[str]] = {}
    for tensor in run.tensors():
        tensors.setdefault(tensor.kind, []).append(tensor.name)
    return NamesAnswer(
        scalars=tuple(scalar_names(run)),
        machine=machine_names(opened),
        tensors=tensors,
        statistics=_statistics(run),
        histograms=tensors_with_histograms(run),
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
    """Return the kinds of tensors, and the index of each tensor's kind (plus a spare entry)."""
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


def _worst(
    summary: RunSummary,
    rules: dict[str, type[Documented]],
    by_layer: ByLayer,
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
            of_layer = msgspec.structs.replace(finding, layers=(layer,))
            curves = layer_curves(of_layer, rules.get(finding.code), by_layer)
            yield Worst(
                layer=layer,
                fingerprint=finding.fingerprint,
                severity=finding.severity.value,
                code=finding.code,
                curve=next(curves, ""),
            )


def pace(run: Run) -> float:
    """Return the current speed in steps per second, 0 if unknown."""
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
    """The command that replays the most informative step, or ""."""
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
