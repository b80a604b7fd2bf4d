"""A run on one screen of a terminal: verdict, stories, loss, worst tensors, machine."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mothtrap.core.diagnosis import fault_name
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Floats, Matrix
from mothtrap.report.machine import MachineRow
from mothtrap.report.style import SEVERITY_GLYPHS, Style, count_of

if TYPE_CHECKING:
    from mothtrap.reader.run import Run
    from mothtrap.report.summary import RunSummary

BARS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
MAX_STORIES, MAX_TENSORS = 5, 8
"""Rows of a part; chosen by hand, for a terminal of 40 lines."""
KEYS = "q quit · f first bad step · n p next, previous finding · s stop the job"
_COLORS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
_PLAIN = Style()


def screen(
    run: Run,
    summary: RunSummary,
    machine: Sequence[MachineRow],
    *,
    chosen: int = 0,
    width: int = 80,
    note: str = "",
) -> RenderableType:
    """Render a run for one screen of a terminal.

    Args:
        run: the refreshed run.
        summary: summary of the run.
        machine: machine metrics.
        chosen: index of the finding to show in full.
        width: columns of the terminal.
        note: response to a key press.
    """
    keys = Text(note or KEYS, style="dim")  # above the part that a small terminal cuts off
    parts: list[RenderableType] = [_head(run, summary), keys, _verdict(summary)]
    if summary.findings:
        chosen = min(chosen, len(summary.findings) - 1)
        parts.append(_findings(summary, chosen))
        parts.append(_chosen(summary.in_story_order()[chosen]))
    parts.append(_loss(run, width))
    tensors = _tensors(run, width)
    if tensors is not None:
        parts.append(tensors)
    if machine:
        parts.append(_machine(machine))
    return Group(*parts)


def spark(values: Floats, width: int) -> str:
    """Return values as a line of bars, with `×` for non-finite values; newest value last.

    Each column shows the largest value of its part of the series.
    """
    if not len(values):
        return ""
    parts = np.array_split(values, min(width, len(values)))
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    drawn = ""
    for part in parts:
        top = float(part.max()) if np.isfinite(part).all() else math.nan
        drawn += NOT_FINITE if math.isnan(top) else BARS[round((top - low) * scale)]
    return drawn


def _head(run: Run, summary: RunSummary) -> Text:
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(_safe(run.id), style="bold")
    color = {"running": "green", "crashed": "bold red"}.get(run.state, "dim")
    head.append(f"  {run.state}", style=color)
    head.append(f"  step {run.steps:,}")
    series = run.scalars("step_s", mode="train") if run.state == "running" else ()
    if series and len(series[0].values_S):
        recent = series[0].values_S[-50:]
        mean_s = float(np.mean(recent[np.isfinite(recent)])) if len(recent) else 0.0
        if mean_s > 0:
            head.append(f"  {1 / mean_s:.3g} steps/s")
    if len(run.workers) > 1:
        head.append(f"  {len(run.workers)} ranks")
    if run.kind.has_overhead:
        head.append(f"  overhead {100 * summary.overhead.ratio:.1f} %", style="dim")
    head.append(time.strftime("  %H:%M:%S"), style="dim")
    return head


def _verdict(summary: RunSummary) -> RenderableType:
    worst = min((f.severity for f in summary.findings), key=lambda s: s.rank, default=None)
    style = _COLORS[worst] if worst is not None and worst is not Severity.INFO else "green"
    return Panel(Text(_safe(summary.verdict)), border_style=style)


def _findings(summary: RunSummary, chosen: int) -> Table:
    table = Table.grid(padding=(0, 2), expand=True)
    for column in ({"width": 3}, {"no_wrap": True}, {"justify": "right"}, {"ratio": 1}):
        table.add_column(**column)
    first = max(0, min(chosen - MAX_STORIES // 2, len(summary.findings) - MAX_STORIES))
    for index, finding in enumerate(summary.in_story_order()[first : first + MAX_STORIES], first):
        mark = ">" if index == chosen else " "
        table.add_row(
            Text(f"{mark}{SEVERITY_GLYPHS[finding.severity]}", style=_COLORS[finding.severity]),
            Text(f"{finding.code} {_safe(fault_name(finding))}"),
            Text(finding.began),
            Text(_safe(finding.message), no_wrap=True, overflow="ellipsis"),
        )
    more = len(summary.findings) - first - MAX_STORIES
    if more > 0:
        table.add_row("", Text(f"{count_of(more, 'more finding')}", style="dim"), "", "")
    return table


def _chosen(finding: Finding) -> RenderableType:
    lines = Text()
    if finding.layers:
        lines.append(f"in {_safe(', '.join(finding.layers[:4]))}\n")
    if finding.location:
        lines.append(f"at {_safe(finding.location)}\n")
    if finding.caused_by:
        lines.append(f"follows from {', '.join(finding.caused_by)}\n")
    elif finding.fixes:
        lines.append(f"Fix: {_safe(finding.fixes[0])}\n")
    lines.rstrip()
    return Panel(lines or Text(_safe(finding.message)), title=finding.code, title_align="left")


def _loss(run: Run, width: int) -> RenderableType:
    series = [s for s in run.scalars("loss", mode="train") if len(s.values_S)]
    if not series:
        return Text("loss: none was recorded", style="dim")
    line = Text(no_wrap=True)
    last = float(series[0].values_S[-1])
    label, value = "loss ", f" {last:.4g}"
    line.append(label, style="bold")
    line.append(spark(series[0].values_S, max(10, width - len(label) - len(value) - 1)))
    line.append(value, style="bold red" if not math.isfinite(last) else "bold")
    return line


def _tensors(run: Run, width: int) -> RenderableType | None:
    """Return the gradients that have grown most, relative to their median, the worst first."""
    matrix = run.stats("gradient", statistics="l2")["l2"]
    rows = _worst(matrix)
    if not rows:
        return None
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(20, width // 3))
    table.add_column(no_wrap=True, ratio=1)
    table.add_column(justify="right", no_wrap=True)
    for name, values, ratio in rows:
        odd = not math.isfinite(ratio)
        table.add_row(
            Text(_safe(name)),
            Text(spark(values, max(10, width // 3))),
            Text("not finite" if odd else f"{ratio:.3g}x", style="bold red" if odd else ""),
        )
    return Panel(table, title="gradient norm: last value / median", title_align="left")


def _worst(matrix: Matrix) -> list[tuple[str, Floats, float]]:
    """Return names, norms, and ratios of the last norm to the median, largest ratio first.

    Tensors that are not finite come first.
    """
    found = []
    for index, tensor in enumerate(matrix.tensors):
        values = matrix.values_ST[matrix.present_ST[:, index], index]
        finite = values[np.isfinite(values)]
        if not len(values):
            continue
        median = float(np.median(finite)) if len(finite) else math.nan
        last = float(values[-1])
        if not math.isfinite(last):
            found.append((tensor.name, values, math.nan))
        elif median > 0:
            found.append((tensor.name, values, last / median))
    found.sort(key=lambda row: -row[2] if math.isfinite(row[2]) else -math.inf)
    return found[:MAX_TENSORS]


def _machine(rows: Sequence[MachineRow]) -> RenderableType:
    said = " · ".join(f"{row.what} {row.last}" for row in rows if "used" not in row.what)
    return Text(f"machine: {said}", style="dim")


def _safe(text: str) -> str:
    return _PLAIN.safe(text)
