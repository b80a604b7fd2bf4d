"""Gradient norms of the layers over the steps, as an SVG heatmap that needs no script.

Shape suffixes: T = tensors, S = steps, B = buckets.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import numpy as np

from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Matrix
from mothtrap.reader.series.worker_series import statistic_matrices
from mothtrap.report.chart import WIDTH, buckets

if TYPE_CHECKING:
    from mothtrap.core.tensors import TensorInfo
    from mothtrap.reader.run import Run

MOST_ROWS = 32
"""Tensors that are drawn; chosen by hand: a page of paper has room for them."""
MOST_COLUMNS = 80
"""Columns of steps; chosen by hand: narrower cells cannot be distinguished on a phone."""
KIND = "gradient"
STATISTICS = ("l2", "nan", "inf")
LEFT, TOP, ROW = 220, 6, 16
FAINTEST = 0.08
"""Opacity of the smallest norm: it is drawn, unlike a step that was not captured."""


def heatmap(run: Run) -> str:
    """Return the heatmap with its caption; "" if no gradient of a layer was captured.

    One row is one parameter, in the order of the model. If there are more than `MOST_ROWS`, rows at
    equal distances are drawn. One column covers a power of two of steps and shows their largest
    norm.
    """
    found = {tensor.info.name: tensor.info for tensor in run.tensors() if tensor.info.kind == KIND}
    chosen = _at_equal_distances(list(found.values()))
    names = {info.name for info in chosen}
    if not names:
        return ""
    read = statistic_matrices(
        run.parts(run.workers[0]), KIND, lambda info: info.name in names, STATISTICS, Mode.TRAIN
    )
    matrix = read["l2"]
    if len(matrix.steps_S) < 2:
        return ""
    # The norm covers only the finite elements.
    matrix.values_ST[read["nan"].values_ST + read["inf"].values_ST > 0] = math.nan
    notes = (
        ["Pink: not finite"] if not np.isfinite(matrix.values_ST[matrix.present_ST]).all() else []
    )
    if len(chosen) < len(found):
        notes.append(f"{len(chosen)} of {len(found)} parameters")
    return _picture(matrix, [info.name for info in chosen], notes)


def _at_equal_distances(infos: list[TensorInfo]) -> list[TensorInfo]:
    if len(infos) <= MOST_ROWS:
        return infos
    return [infos[round(at)] for at in np.linspace(0, len(infos) - 1, MOST_ROWS)]


def _picture(matrix: Matrix, names: list[str], notes: list[str]) -> str:
    scale = _Scale(matrix.values_ST)
    first, last = int(matrix.steps_S[0]), int(matrix.steps_S[-1])
    column_of = {info.name: column for column, info in enumerate(matrix.tensors)}
    parts = []
    for row, name in enumerate(names):
        y = TOP + row * ROW
        short = name if len(name) <= 32 else f"…{name[-31:]}"
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 12}" text-anchor="end">'
            f"{html.escape(short)}</text>"
        )
        if name in column_of:
            parts += _row(matrix, column_of[name], y, (first, last), scale)
    bottom = TOP + len(names) * ROW
    for step, anchor in ((first, "start"), (last, "end")):
        x = LEFT if step == first else WIDTH
        parts.append(
            f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="{anchor}">'
            f"step {step:,}</text>"
        )
    label = f"Gradient norms of {len(names)} parameters, steps {first} to {last}. {scale}"
    caption = ". ".join([f"Norm of the gradient of each parameter. {scale}", *notes])
    return (
        f'<svg role="img" aria-label="{html.escape(label)}" '
        f'viewBox="0 0 {WIDTH} {bottom + 24}" class="chart">{"".join(parts)}</svg>'
        f'<p class="soft">{html.escape(caption)}.</p>'
    )


def _row(matrix: Matrix, column: int, y: int, ends: tuple[int, int], scale: _Scale) -> list[str]:
    """Return the cells of a tensor, without cells where nothing was captured."""
    there_S = matrix.present_ST[:, column]
    steps_S, values_S = matrix.steps_S[there_S], matrix.values_ST[there_S, column]
    if not len(steps_S):
        return []
    steps_B, _, high_B, odd_B = buckets(steps_S, values_S, MOST_COLUMNS)
    width = min(np.diff(steps_B).tolist(), default=1)
    per_step = (WIDTH - LEFT) / (ends[1] + width - ends[0])
    cells = []
    for step, high, odd in zip(steps_B, high_B.tolist(), odd_B, strict=True):
        begin = max(step, ends[0])
        shade = 'class="odd"' if odd else f'class="cell" fill-opacity="{scale.opacity(high):.2f}"'
        x, wide = LEFT + (begin - ends[0]) * per_step, (step + width - begin) * per_step
        value = "not finite" if odd else f"{high:.3g}"
        cells.append(
            f'<rect {shade} x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 1}">'
            f"<title>step {begin:,}: {value}</title></rect>"
        )
    return cells


class _Scale:
    """Opacity of a norm on a logarithmic scale from the smallest to the largest."""

    def __init__(self, values_ST: Floats) -> None:
        some = values_ST[np.isfinite(values_ST) & (values_ST > 0)]
        self._low, self._high = (float(some.min()), float(some.max())) if len(some) else (1.0, 1.0)

    def opacity(self, value: float) -> float:
        """Return a number from `FAINTEST` to 1; 0 for a norm of 0."""
        if not value > 0:
            return 0.0
        span = math.log(self._high) - math.log(self._low)
        share = (math.log(value) - math.log(self._low)) / span if span > 0 else 1.0
        return FAINTEST + (1 - FAINTEST) * share

    def __str__(self) -> str:
        """Return the legend of the shades."""
        return (
            f"Logarithmic scale from {self._low:.3g} (faint) to {self._high:.3g} (full color). "
            "Blank: 0 or not captured"
        )
