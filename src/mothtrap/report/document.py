"""Contents of a report of a run, gathered once for every format."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Finding
from mothtrap.core.ledger import Ledger
from mothtrap.core.masking import arguments_without_secrets, shareable
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.gaps import watched_steps
from mothtrap.reader.series.step_values import evaluation_losses, step_values
from mothtrap.report.evidence import Evidence, WorstLayer
from mothtrap.report.heatmap import heatmap
from mothtrap.report.machine import MachineRow, machine_rows
from mothtrap.report.record import recorded
from mothtrap.report.record_page import Section, section
from mothtrap.report.source import noted_only
from mothtrap.report.source_lines import SourceAnswer, lines_at
from mothtrap.report.summary import RunSummary
from mothtrap.store.layout import attempt_folder, attempts
from mothtrap.store.machine_log import MachineReader

if TYPE_CHECKING:
    from mothtrap.core.diagnosis import Story
    from mothtrap.reader.run import Run

MAX_SERIES = 4
"""Losses that are drawn; chosen by hand: more cannot be distinguished."""
MAX_STORIES = 100
"""Stories that are shown in full; chosen by hand, far more than a run has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Content of a report about a run.

    Attributes:
        summary: summary of the run.
        losses: series of losses, training first.
        conditions: start conditions, by name.
        machine: machine metrics over the run.
        made_s: Unix time of the report.
        record: parameters, data, code and logged items, as HTML.
        checked: results of the checks of `mothtrap check`.
        excerpts: lines of the script around the location of each root cause.
        charts: SVG chart of the evidence of a root cause, by fingerprint.
        layers: layers that findings name.
        heatmap: gradient norms of the layers over the steps, as HTML.
        watched: steps that were watched; None = all.
    """

    summary: RunSummary
    losses: tuple[Series, ...] = ()
    conditions: Mapping[str, str]
    machine: tuple[MachineRow, ...] = ()
    made_s: float
    record: Section | None = None
    checked: tuple[CheckResult, ...] = ()
    excerpts: Mapping[str, SourceAnswer] = field(default_factory=dict)
    charts: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[WorstLayer, ...] = ()
    heatmap: str = ""
    watched: int | None = None

    @property
    def stories(self) -> list[tuple[Story, Finding, list[Finding]]]:
        """Each story with its root and effects, worst first."""
        known = {finding.fingerprint: finding for finding in self.summary.findings}
        return [
            (story, known[story.root], [known[name] for name in story.effects if name in known])
            for story in self.summary.diagnosis[:MAX_STORIES]
            if story.root in known
        ]


def gather(run: Run, summary: RunSummary, *, code: bool = True) -> Document:
    """Collect the content of a report about a run.

    Args:
        run: the run of `summary`.
        summary: summary of the run.
        code: whether source lines are shown.
    """
    sources = noted_only(summary.sources, _ledger(run), run.source_texts()) if code else {}
    summary = msgspec.structs.replace(summary, sources=sources)
    roots = {story.root for story in summary.diagnosis[:MAX_STORIES]}
    evidence = Evidence(run)
    return Document(
        summary=summary,
        charts=evidence.charts(f for f in summary.findings if f.fingerprint in roots),
        layers=evidence.worst_layers(summary.findings),
        heatmap=heatmap(run) if run.workers else "",
        watched=watched_steps(run) if run.observations(Unwatched) else None,
        losses=tuple(series for series in _losses(run) if len(series.steps_S))[:MAX_SERIES],
        conditions=shareable(_conditions(run)),
        machine=_machine(run),
        made_s=time.time(),
        record=section(run, recorded(run)),
        checked=tuple(run.observations(CheckResult)),
        excerpts=_excerpts(run, summary) if code else {},
    )


def _excerpts(run: Run, summary: RunSummary) -> dict[str, SourceAnswer]:
    """Return the lines around the location of each root cause whose source the run knows."""
    roots = {story.root for story in summary.diagnosis[:MAX_STORIES]}
    places = [f.location for f in summary.findings if f.fingerprint in roots and f.location]
    found = {place: lines_at(run, place) for place in dict.fromkeys(places)}
    return {place: answer for place, answer in found.items() if answer.lines}


def _losses(run: Run) -> list[Series]:
    """Return the losses, training first, and the metrics of evaluations that are comparable."""
    found = {(one.name, one.of, one.mode): one for one in run.scalars("loss")}
    for metrics in run.observations(EvaluationMetrics):
        for one in run.scalars(metrics.loss) if metrics.loss is not None else ():
            if one.mode is Mode.EVAL and one.of == metrics.site:
                found.setdefault((one.name, one.of, one.mode), one)
    each = [one if one.mode is Mode.TRAIN else _of_evaluations(run, one) for one in found.values()]
    return sorted(each, key=lambda series: series.mode != Mode.TRAIN)


def _of_evaluations(run: Run, series: Series) -> Series:
    """Return a series with one value for each evaluation, rather than for each of its batches."""
    known = evaluation_losses(run.observations(Evaluation), series.of)
    steps_U, values_U = step_values(series.steps_S, series.values_S, known)
    return replace(series, steps_S=steps_U, values_S=values_U)


def _conditions(run: Run) -> dict[str, str]:
    """Return the conditions under which a run was started."""
    found: dict[str, str] = {}
    info, ledger = run.info, _ledger(run)
    if ledger is not None:
        found["arguments"] = " ".join(arguments_without_secrets(ledger.arguments))
        found["folder"] = ledger.cwd
    if info is not None:
        found["started"] = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(info.created_s))
        found["host"], found["Python"] = info.host, info.python
        found["mothtrap"] = info.mothtrap
    if run.end is not None:
        ended = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.end.ended_s))
        found["ended"] = f"{ended}, exit code {run.end.exit_code}"
    for settings in run.observations(TrainerSettings):
        found["trainer"] = _trainer(settings)
    if ledger is not None:
        for section in ("hardware", "versions"):
            for name, value in sorted(ledger.facts.get(section, {}).items()):
                found[name] = str(value)
    return found


def _trainer(settings: TrainerSettings) -> str:
    """Return the settings of a trainer in one line."""
    parts = [f"{settings.trainer}, {settings.model}"]
    parts += [f"{settings.accumulates} batches per step"] if settings.accumulates > 1 else []
    clips = settings.clips
    parts += [f"gradients clipped to a {settings.clips_by} of {clips:g}"] if clips else []
    parts += [settings.precision, settings.strategy]
    parts += [f"{settings.processes} processes"] if settings.processes > 1 else []
    return ", ".join(filter(None, parts))


def _machine(run: Run) -> tuple[MachineRow, ...]:
    """Return the numbers of the machine in the latest attempt."""
    numbers = attempts(run.path)
    if not numbers:
        return ()
    reader = MachineReader(attempt_folder(run.path, numbers[-1]))
    reader.poll()
    return machine_rows(reader.series)


def _ledger(run: Run) -> Ledger | None:
    try:
        return run.ledger()
    except (DamagedDataError, OSError):
        return None
