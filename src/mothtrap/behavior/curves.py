"""Dependence of the output of a model on one column: ICE, PDP and ALE.

Shape suffixes: R = rows, G = points of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Column, Table
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.reader.plots import SCHEMA, Chart

Floats = npt.NDArray[np.float64]
Kind = Literal["ice", "pdp", "ale"]

ROWS: Final = 256
POINTS: Final = 32
SHOWN_ROWS: Final = 64
"""Curves of single rows in a picture; chosen by hand: more are hard to distinguish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Model output as a function of one column.

    Attributes:
        kind: "ice", "pdp" or "ale".
        column: name of the column.
        grid_G: values of the column, shape (G,).
        output_G: mean output, shape (G,); for "ale" the effect, whose mean is 0.
        output_RG: outputs of single rows, shape (R, G), for "ice"; otherwise None.
    """

    kind: Kind
    column: str
    grid_G: Floats
    output_G: Floats
    output_RG: Floats | None = None


def curve(subject: Subject, kind: Kind, name: str) -> Curve:
    """Return a curve of a column; see `ProbeReport.curve`.

    Raises:
        UnknownNameError: there is no such column.
        ConfigError: the column holds no numbers, or the kind is unknown.
    """
    if kind not in ("ice", "pdp", "ale"):
        raise ConfigError(f"kind: expected ice, pdp or ale, found {kind!r}")
    if name not in subject.table.names:
        raise UnknownNameError(f"no column {name!r}{nearest(name, subject.table.names)}")
    column = subject.table.column(name)
    if not column.is_number or not len(column.known_R):
        raise ConfigError(f"{name} is not numeric; a curve needs a numeric column")
    if kind == "ale":
        grid_G, effect_G = accumulated(subject, name)
        return Curve(kind=kind, column=name, grid_G=grid_G, output_G=effect_G)
    grid_G = quantiles(column, POINTS)
    output_RG = individual(subject, some_rows(subject, ROWS), name, grid_G)
    return Curve(
        kind=kind,
        column=name,
        grid_G=grid_G,
        output_G=output_RG.mean(axis=0),
        output_RG=output_RG if kind == "ice" else None,
    )


def some_rows(subject: Subject, count: int) -> Table:
    """Return at most `count` of the rows that the probes change, evenly spaced."""
    places = np.linspace(0, len(subject.asked) - 1, min(count, len(subject.asked))).astype(int)
    return subject.table.take(subject.asked[np.unique(places)])


def quantiles(column: Column, points: int) -> Floats:
    """Return distinct quantiles (G,) of a column; whole numbers stay whole."""
    known = column.known_R
    grid_G = np.quantile(known, np.linspace(0, 1, points), method="nearest")
    return np.unique(grid_G)


def individual(subject: Subject, rows: Table, name: str, grid_G: Floats) -> Floats:
    """Return the output (R, G) for each row with each value of a column (Goldstein, 2015)."""
    count = len(rows)
    repeated = rows.take(np.tile(np.arange(count), len(grid_G)))
    answers = subject.ask(repeated.replaced({name: np.repeat(grid_G, count)}))
    return subject.output(answers).reshape(len(grid_G), count).T


def accumulated(subject: Subject, name: str, points: int = POINTS) -> tuple[Floats, Floats]:
    """Return grid and accumulated local effects (G,) of a column (Apley and Zhu, 2020).

    In each interval of the column only the rows in it are moved to its ends, so the model is never
    asked about rows unlike the data. The mean over the rows is 0.
    """
    rows = subject.table.take(subject.asked)
    values_R = rows.column(name).number_R
    assert values_R is not None
    rows = rows.take(np.isfinite(values_R))
    values_R = values_R[np.isfinite(values_R)]
    grid_G = np.unique(np.quantile(values_R, np.linspace(0, 1, points), method="nearest"))
    if len(grid_G) < 2:
        return grid_G, np.zeros(len(grid_G))
    bin_R = np.clip(np.searchsorted(grid_G, values_R, side="left") - 1, 0, len(grid_G) - 2)
    low = subject.output(subject.ask(rows.replaced({name: grid_G[bin_R]})))
    high = subject.output(subject.ask(rows.replaced({name: grid_G[bin_R + 1]})))
    count = np.bincount(bin_R, minlength=len(grid_G) - 1)
    step = np.bincount(bin_R, weights=high - low, minlength=len(grid_G) - 1)
    effect_G = np.append(0, np.cumsum(step / np.maximum(count, 1)))
    middle = (effect_G[1:] + effect_G[:-1]) / 2
    return grid_G, effect_G - float((middle * count).sum() / count.sum())


def chart(curve: Curve) -> Chart:
    """Draw a curve: single rows as thin lines, their mean as a thick line."""
    layers: list[dict[str, Any]] = []
    axes = {
        "x": {"field": "x", "type": "quantitative", "title": curve.column},
        "y": {"field": "y", "type": "quantitative", "title": "output", "scale": {"zero": False}},
    }
    if curve.output_RG is not None:
        singles = [
            {"x": float(x), "y": float(y), "row": row}
            for row, output_G in enumerate(curve.output_RG[:SHOWN_ROWS])
            for x, y in zip(curve.grid_G, output_G, strict=True)
        ]
        layers.append(
            {
                "data": {"values": singles},
                "mark": {"type": "line", "opacity": 0.25, "strokeWidth": 1},
                "encoding": {**axes, "detail": {"field": "row", "type": "nominal"}},
            }
        )
    mean = [
        {"x": float(x), "y": float(y)} for x, y in zip(curve.grid_G, curve.output_G, strict=True)
    ]
    layers.append(
        {
            "data": {"values": mean},
            "mark": {"type": "line", "strokeWidth": 3, "point": True},
            "encoding": axes,
        }
    )
    title = {"ice": "single rows and their mean", "pdp": "mean output", "ale": "local effect"}
    return Chart(
        {
            "$schema": SCHEMA,
            "title": f"{curve.column}: {title[curve.kind]}",
            "width": 480,
            "height": 260,
            "layer": layers,
        }
    )
