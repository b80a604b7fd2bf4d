"""Charts of a run as Vega-Lite specifications: plain dictionaries, with their data inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mothtrap.core.errors import StepUnavailableError, UnknownNameError
from mothtrap.core.findings import Finding
from mothtrap.core.steps import Mode
from mothtrap.core.window import Matrix, Series
from mothtrap.reader import vega
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.statistics.exponents import LOWEST_POWER

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
POINTS = 600
"""Number of points of a curve: the lowest and highest values of each share of the steps are kept.
"""
MOST_TENSORS = 200
MOST_COLUMNS = 100
"""Maximum number of columns of a heatmap; chosen by hand: a cell takes 150 bytes of an SVG."""
WIDTH, HEIGHT = 640, 260
LABEL_WIDTH = 240
"""Width of a tensor's name in pixels; chosen by hand: about 40 characters."""
COLORS = ("#0f62b0", "#b8520a", "#1b7a4b", "#8e3ba8", "#a8324a", "#0b7285", "#6b5a00", "#55585e")
"""Colors of curves, in the order of the page (`--series-1` of its style sheet)."""
SPREAD = 1000.0
"""Ratio of the greatest to the least value from which an axis is logarithmic, as on the page."""
STEPS = {"labelOverlap": True, "labelAngle": 0}


class Plotted(Protocol):
    """The part of a run to plot."""

    @property
    def id(self) -> str:
        """Name of the run."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the run."""

    def scalars(self, pattern: str = "*") -> Sequence[Series]:
        """Return scalars of the run."""

    def stats(self, kind: str, layers: str = "*", statistics: str = "l2") -> dict[str, Matrix]:
        """Return statistics of tensors."""

    def tensor(self, name: str) -> Tensor:
        """Return a tensor of the run."""


class Chart(dict[str, Any]):
    """Chart as a Vega-Lite specification, which notebooks render; `svg` and `png` return images."""

    def svg(self) -> str:
        """Render the chart as SVG.

        Raises:
            MissingExtraError: vl-convert-python is not installed.
            QueryError: the chart cannot be rendered; the message gives the reason.
        """
        return vega.draw(vega.encoded(self)).decode()

    def png(self) -> bytes:
        """Render the chart as PNG; raises the same errors as `svg`."""
        return vega.draw(vega.encoded(self), "png")

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        found: dict[str, Any] = {"application/vnd.vegalite.v5+json": dict(self)}
        if vega.can_draw():
            found["image/svg+xml"] = self.svg()
        return found


class Plots:
    """Charts of a run.

    Args:
        run: the run, or a view of some of its steps (`Run.range`).
    """

    def __init__(self, run: Plotted) -> None:
        self._run = run

    def loss(self) -> Chart:
        """Plot training and evaluation losses over steps, with the onset of each finding."""
        series = [s for s in self._run.scalars("loss") if len(s.values_S)]
        curves = [row for s in series for row in _points(s, _called(s))]
        marks = [
            {"step": f.step, "finding": f"{f.code} {f.name}", "severity": str(f.severity)}
            for f in self._run.findings[:50]
        ]
        rule = {
            "data": {"values": marks},
            "mark": {"type": "rule", "strokeDash": [4, 3], "tooltip": True},
            "encoding": {"x": _step(), "color": {"value": "#b3261e"}, "tooltip": _texts("finding")},
        }
        return _chart(f"Loss of {self._run.id}", layer=[_lines(curves, "loss"), rule])

    def layers(self, statistic: str = "l2", kind: str = "gradient") -> Chart:
        """Plot one statistic of every tensor of a kind over steps, as a heatmap.

        Args:
            statistic: e.g. `l2`, `max_abs`, `zero_frac`.
            kind: kind of the tensors, e.g. `gradient`.

        Raises:
            UnknownNameError: the kind or statistic does not exist; the message suggests one.
        """
        matrix = self._run.stats(kind, statistics=statistic)[statistic]
        columns = np.array_split(np.arange(len(matrix.steps_S)), _parts(len(matrix.steps_S)))
        rows = []
        for number, tensor in enumerate(matrix.tensors[:MOST_TENSORS]):
            for column in columns:
                values = matrix.values_ST[column, number][matrix.present_ST[column, number]]
                finite = np.abs(values[np.isfinite(values)])
                if len(values):
                    step = int(matrix.steps_S[column[0]])
                    value = float(finite.max()) if len(finite) else None
                    rows.append({"step": step, "tensor": tensor.name, statistic: value})
        layer = {
            "data": {"values": rows},
            "mark": {"type": "rect", "tooltip": True, "invalid": None},
            "encoding": {
                "x": {"field": "step", "type": "ordinal", "axis": STEPS},
                "y": {
                    "field": "tensor",
                    "type": "nominal",
                    "sort": None,
                    "title": None,
                    "axis": {"labelLimit": LABEL_WIDTH},
                },
                "color": _shade(statistic, [row[statistic] for row in rows]),
            },
        }
        title = f"{statistic} of each {kind} of {self._run.id}"
        return _chart(title, layer=[layer], height={"step": 14})

    def distribution(self, tensor: Tensor | str) -> Chart:
        """Plot the distribution of a tensor's values over powers of two, for each step.

        Args:
            tensor: the tensor or its name. Its values (`raw`) or its `exponents` must be captured.

        Raises:
            UnknownNameError: the tensor does not exist, or none of its values were captured.
        """
        chosen = self._run.tensor(tensor) if isinstance(tensor, str) else tensor
        steps = [int(step) for step in chosen.steps(Mode.TRAIN)]
        if not steps:  # captured only in evaluations
            steps = sorted({int(step) for step in chosen.steps()})
        kept = [steps[i] for i in _even(len(steps))]
        rows = []
        for step in kept:
            try:
                counts_B = chosen.exponents(step).counts
            except StepUnavailableError:
                continue
            rows += [
                {"step": step, "power": LOWEST_POWER + int(place), "values": int(counts_B[place])}
                for place in np.flatnonzero(counts_B)
            ]
        if not rows:
            raise UnknownNameError(
                f"no values and no exponents of {chosen.identity} were captured; capture them "
                'with a collection that has `statistics = ["exponents"]`'
            )
        powers = [row["power"] for row in rows]
        # including steps in between without a value
        every = list(range(max(powers), min(powers) - 1, -1))
        layer = {
            "data": {"values": rows},
            "mark": {"type": "rect", "tooltip": True},
            "encoding": {
                "x": {"field": "step", "type": "ordinal", "axis": STEPS},
                "y": {"field": "power", "type": "ordinal", "scale": {"domain": every}},
                "color": {
                    "field": "values",
                    "type": "quantitative",
                    "scale": {"type": "symlog", "scheme": "cividis"},
                },
            },
        }
        return _chart(f"Values of {chosen.identity}", **layer)

    def compare(self, other: Plotted, name: str = "loss") -> Chart:
        """Plot one scalar of two runs in one chart.

        Args:
            other: the other run.
            name: name of the scalar.

        Raises:
            UnknownNameError: neither run has the scalar.
        """
        rows = []
        names = (self._run.id, other.id if other.id != self._run.id else f"{other.id} (other)")
        for run, of in zip((self._run, other), names, strict=True):
            for series in run.scalars(name):
                if len(series.values_S):
                    rows += _points(series, f"{of} {_called(series)}")
        if not rows:
            raise UnknownNameError(f"neither {self._run.id} nor {other.id} has a scalar {name!r}")
        return _chart(f"{name} of {names[0]} and {names[1]}", layer=[_lines(rows, name)])


def _chart(title: str, **parts: Any) -> Chart:
    return Chart({"$schema": SCHEMA, "title": title, "width": WIDTH, "height": HEIGHT, **parts})


def _lines(rows: list[dict[str, Any]], what: str) -> dict[str, Any]:
    """Return lines; a non-finite value is a gap, with a mark at the upper edge."""
    names = sorted({row["series"] for row in rows}, key=lambda name: ("train/" not in name, name))
    color = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": [COLORS[i % len(COLORS)] for i in range(len(names))]},
        "legend": {"orient": "bottom", "columns": 1, "labelLimit": 0},
    }
    known = [row["value"] for row in rows if row["value"] is not None]
    is_spread = bool(known) and min(known) > 0 and max(known) / min(known) > SPREAD
    scale: dict[str, Any] = {"type": "log"} if is_spread else {"zero": False}
    value = {"field": "value", "type": "quantitative", "title": what, "scale": scale}
    gone = {
        "transform": [{"filter": "!isValid(datum.value)"}],
        "mark": {"type": "point", "shape": "cross", "filled": True, "color": "#c2185b"},
        "encoding": {"x": _step(), "y": {"value": 4}},
    }
    line = {
        "mark": {"type": "line", "tooltip": True},
        "encoding": {"x": _step(), "y": value, "color": color},
    }
    return {"data": {"values": rows}, "layer": [line, gone]}


def _step() -> dict[str, Any]:
    scale = {"nice": False}  # the axis ends with the run
    return {"field": "step", "type": "quantitative", "title": "step", "scale": scale}


def _shade(statistic: str, drawn: list[Any]) -> dict[str, Any]:
    """Return the color of a cell: logarithmic, with a separate color for non-finite values."""
    positive = [value for value in drawn if isinstance(value, float) and value > 0]
    # Lower values are drawn as 0.
    least = float(np.percentile(positive, 10)) if positive else 1.0
    return {
        "condition": {"test": f"!isValid(datum['{statistic}'])", "value": "#c2185b"},
        "field": statistic,
        "type": "quantitative",
        "scale": {"type": "symlog", "constant": least, "scheme": "cividis"},
        "legend": {"values": _powers(least, max(positive, default=1.0)), "format": "~g"},
    }


def _powers(low: float, high: float) -> list[float]:
    """Return the powers of ten from just below `low` to just above `high`, at most ten."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, -(-(last - first + 1) // 10))
    return [10.0**power for power in range(first, last + 1, every)]


def _texts(*names: str) -> list[dict[str, str]]:
    return [{"field": name, "type": "nominal"} for name in names]


def _points(series: Series, name: str) -> list[dict[str, Any]]:
    """Return the points of a curve: the lowest and highest of each part, and non-finite points.

    Batches of an evaluation share a train step; their mean is one point.
    """
    steps, values = np.asarray(series.steps_S), np.asarray(series.values_S, np.float64)
    if series.mode != Mode.TRAIN and len(steps):
        steps, place_N, count_N = np.unique(steps, return_inverse=True, return_counts=True)
        values = np.bincount(place_N, values) / count_N
    chosen: set[int] = set()
    for part in np.array_split(np.arange(len(values)), min(len(values), POINTS // 2)):
        finite = part[np.isfinite(values[part])]
        if len(finite):
            chosen |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
        if len(finite) < len(part):
            chosen.add(int(part[~np.isfinite(values[part])][0]))
    return [
        {
            "step": int(steps[i]),
            "series": name,
            "value": float(values[i]) if np.isfinite(values[i]) else None,
        }
        for i in sorted(chosen)
    ]


def _called(series: Series) -> str:
    return f"{series.mode}/{series.name}"


def _parts(count: int) -> int:
    return max(1, min(count, MOST_COLUMNS))


def _even(count: int) -> list[int]:
    return (
        sorted(set(np.linspace(0, count - 1, min(count, MOST_COLUMNS)).astype(int)))
        if count
        else []
    )
