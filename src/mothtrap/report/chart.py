"""Series as an SVG picture that needs no script: band of minima and maxima, marks, NaN lane.

Shape suffixes: S = steps of a series, B = buckets.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints, Series
from mothtrap.report.style import SEVERITY_GLYPHS

WIDTH, HEIGHT = 880, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 34, 30
LANE_Y = 20
"""Height of the lane of values that are not finite, above the curves."""
MOST_BUCKETS = 600
LOG_RATIO = 100.0
"""Largest over smallest value from which a logarithmic axis is used; chosen by hand."""
MOST_TICKS = 5
"""Labels of the vertical axis, about."""
MAX_MARKS = 40


def series_chart(
    losses: Sequence[Series], findings: Sequence[Finding], limit: float | None = None
) -> str:
    """Return an SVG element of series over steps, with marks at the onsets of findings.

    Args:
        losses: losses or other series with at least one step each; without any, the result is "".
        findings: findings to mark, worst first; notes are not marked.
        limit: height of a reference line.
    """
    if not losses:
        return ""
    first = min(int(series.steps_S[0]) for series in losses)
    last = max(max(int(series.steps_S[-1]) for series in losses), first + 1)
    axis = _Axis(losses, limit)
    parts = [_frame(axis, first, last)]
    parts += [_limit_line(axis, limit)] if limit is not None else []
    for index, series in enumerate(losses):
        steps_B, low_B, high_B, odd_B = buckets(series.steps_S, series.values_S)
        x_B = [_x(step, first, last) for step in steps_B]
        parts += _curve(index, x_B, low_B, high_B, axis, _begins(series, steps_B))
        parts += [
            f'<rect class="odd" x="{x - 1:.1f}" y="{LANE_Y - 5}" width="3" height="10">'
            f"<title>step {step}: {count} not finite</title></rect>"
            for x, step, count in zip(x_B, steps_B, odd_B, strict=True)
            if count
        ]
    if any(not np.isfinite(series.values_S).all() for series in losses):
        parts.append(
            f'<text class="odd tick" x="{LEFT - 8}" y="{LANE_Y + 4}" text-anchor="end">'
            "not finite</text>"
        )
    parts += [_legend(index, series) for index, series in enumerate(losses)]
    parts += _marks(findings, first, last)
    label = html.escape(_described(losses))
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'class="chart">{"".join(parts)}</svg>'
    )


def buckets(
    steps_S: Ints, values_S: Floats, most: int = MOST_BUCKETS
) -> tuple[list[int], Floats, Floats, list[int]]:
    """Combine steps into at most this many buckets.

    Widths are powers of two of steps and edges are multiples of them, so a growing curve keeps its
    shape. No value is lost: NaN and infinities are counted, and extremes are kept.

    Returns:
        The first step of each bucket, its smallest and largest finite value (NaN if there is none),
        and the number of values that are not finite.
    """
    width = 1
    while len(np.unique(steps_S // width)) > most:
        width *= 2
    keys_B, start_B = np.unique(steps_S // width, return_index=True)
    finite_S = np.isfinite(values_S)
    low_B = np.minimum.reduceat(np.where(finite_S, values_S, np.inf), start_B)
    high_B = np.maximum.reduceat(np.where(finite_S, values_S, -np.inf), start_B)
    odd_B = np.add.reduceat((~finite_S).astype(np.int64), start_B)
    empty_B = ~np.isfinite(low_B)
    low_B[empty_B] = high_B[empty_B] = np.nan
    return [int(k) * width for k in keys_B], low_B, high_B, odd_B.tolist()


class _Axis:
    """The vertical axis; logarithmic where values are positive and far apart.

    It has room for every finite value: no peak is cut.
    """

    def __init__(self, losses: Sequence[Series], limit: float | None = None) -> None:
        limits = [] if limit is None else [limit]
        values = np.concatenate([*(s.values_S[np.isfinite(s.values_S)] for s in losses), limits])
        if not len(values):
            values = np.array([0.0, 1.0])
        low, high = float(values.min()), float(values.max())
        self.is_log = bool(low > 0 and high / low > LOG_RATIO)
        self._low, self._high = self._scaled(low), self._scaled(high)
        if self._high - self._low <= 1e-12 * max(1.0, abs(self._low)):
            self._low, self._high = self._low - 0.5, self._high + 0.5

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-323)) if self.is_log else value

    def y(self, value: float) -> float:
        """Return the height of a value."""
        # Halved, since the difference of two huge numbers may be infinite.
        share = (self._scaled(value) / 2 - self._low / 2) / (self._high / 2 - self._low / 2)
        inner = HEIGHT - TOP - BOTTOM
        return TOP + inner * (1 - min(max(share, 0.0), 1.0))

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Heights and labels of lines at round numbers."""
        step = _round_step((self._high / 2 - self._low / 2) * 2 / MOST_TICKS, whole=self.is_log)
        first, last = math.ceil(self._low / step), math.floor(self._high / step)
        at = [number * step for number in range(first, min(last, first + 2 * MOST_TICKS) + 1)]
        if self.is_log:
            return [(self.y(10.0**each), f"{10.0**each:g}") for each in at]
        digits = max(0, -math.floor(math.log10(step)))
        return [(self.y(each), f"{each:.{digits}f}" if step < 1 else f"{each:g}") for each in at]


def _round_step(least: float, *, whole: bool) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 ... and their tenths that is not below `least`."""
    least = min(max(least, 1.0 if whole else 1e-300), 1e300)
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _x(step: float, first: int, last: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / (last - first)


def _frame(axis: _Axis, first: int, last: int) -> str:
    lines = []
    for y, label in axis.ticks:
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        lines.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        step = round(first + share * (last - first))
        x = _x(step, first, last)
        lines.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}">'
            f"{'step ' if not share else ''}{step:,}</text>"
        )
    if axis.is_log:
        lines.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="10" text-anchor="end">log</text>')
    return "".join(lines)


def _limit_line(axis: _Axis, limit: float) -> str:
    y = axis.y(limit)
    return (
        f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{WIDTH - RIGHT}" y="{y - 4:.1f}" text-anchor="end">'
        f"limit {limit:.3g}</text>"
    )


def _begins(series: Series, steps_B: Sequence[int]) -> set[int]:
    """Return the positions of buckets before which training steps are missing.

    Evaluations are rare by nature: their points are joined.
    """
    if series.mode != Mode.TRAIN or len(steps_B) < 2:
        return set()
    apart = [later - step for step, later in pairwise(steps_B)]
    return {place for place, gap in enumerate(apart, start=1) if gap > min(apart)}


def _curve(
    index: int,
    x_B: Sequence[float],
    low_B: Floats,
    high_B: Floats,
    axis: _Axis,
    begins: set[int],
) -> list[str]:
    """Return bands and middle lines, with gaps where no finite value was recorded."""
    parts: list[str] = []
    run: list[int] = []
    for place in range(len(x_B) + 1):
        is_finite = place < len(x_B) and not math.isnan(low_B[place])
        if run and (not is_finite or place in begins):
            parts += _stretch(index, run, x_B, low_B, high_B, axis)
            run = []
        if is_finite:
            run.append(place)
    return parts


def _stretch(
    index: int,
    run: Sequence[int],
    x_B: Sequence[float],
    low_B: Floats,
    high_B: Floats,
    axis: _Axis,
) -> list[str]:
    """Return the band and the line of buckets without a gap; a dot for a single bucket."""
    top = [(x_B[i], axis.y(high_B[i])) for i in run]
    bottom = [(x_B[i], axis.y(low_B[i])) for i in reversed(run)]
    middle = [(x_B[i], axis.y((low_B[i] + high_B[i]) / 2)) for i in run]
    parts = [
        f'<polygon class="band s{index}" points="{_points(top + bottom)}"/>',
        f'<polyline class="line s{index}" points="{_points(middle)}"/>',
    ]
    if len(run) == 1:
        x, y = middle[0]
        parts.append(f'<circle class="dot s{index}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>')
    return parts


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def _legend(index: int, series: Series) -> str:
    name = series.name if series.mode == "train" else f"{series.name} ({series.mode})"
    x = LEFT + 8 + 150 * index
    return (
        f'<rect class="key s{index}" x="{x}" y="4" width="10" height="4"/>'
        f'<text class="tick" x="{x + 14}" y="10">{html.escape(name[:20])}</text>'
    )


def _marks(findings: Sequence[Finding], first: int, last: int) -> list[str]:
    parts, used = [], list[float]()
    serious = [f for f in findings if f.severity is not Severity.INFO and f.step <= last]
    for finding in serious[:MAX_MARKS]:
        x = _x(max(finding.step, first), first, last)
        title = html.escape(f"{finding.code} {finding.name}, {finding.began}")
        kind = finding.severity.value
        if finding.latest_onset > finding.step:  # only the range is known
            wide = _x(min(finding.latest_onset, last), first, last) - x
            parts.append(
                f'<rect class="range {kind}" x="{x:.1f}" y="{TOP}" width="{wide:.1f}" '
                f'height="{HEIGHT - BOTTOM - TOP}"/>'
            )
        parts.append(
            f'<line class="mark {kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" '
            f'y2="{HEIGHT - BOTTOM}"><title>{title}</title></line>'
        )
        if all(abs(x - other) > 70 for other in used):
            used.append(x)
            end = x > WIDTH - RIGHT - 70
            parts.append(
                f'<text class="marked {kind}" x="{x - 4 if end else x + 4:.1f}" '
                f'y="{HEIGHT - BOTTOM - 6}" text-anchor="{"end" if end else "start"}">'
                f"{SEVERITY_GLYPHS[finding.severity]} {html.escape(finding.code)}</text>"
            )
    return parts


def _described(losses: Sequence[Series]) -> str:
    """Describe the picture in words, for readers who cannot see it."""
    said = []
    for series in losses:
        finite = series.values_S[np.isfinite(series.values_S)]
        odd = len(series.values_S) - len(finite)
        text = f"{series.name} ({series.mode}), steps {series.steps_S[0]} to {series.steps_S[-1]}"
        if len(finite):
            text += f": first {finite[0]:.3g}, last {finite[-1]:.3g}, lowest {finite.min():.3g}"
        said.append(text + (f"; {odd} values are not finite" if odd else ""))
    return ". ".join(said)
