"""Residuals as charts: against the prediction or a column, and against a normal distribution.

Shape suffixes: R = rows, Q = quantiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.reader.plots import SCHEMA, Chart

ROWS = 2_000
"""Dots in one picture; chosen by hand."""
QUANTILES = 200
BINS = 20


def residual_chart(subject: Subject, column: str = "") -> Chart:
    """Plot the residuals against the prediction or a column, with their mean.

    The residual is the target minus the prediction; for classes, 1 for a correct answer minus its
    probability.

    Raises:
        UnknownNameError: there is no such column.
    """
    rows = np.sort(subject.asked[:ROWS])
    judged = subject.judged
    residual_R = judged.residual_R[rows]
    name, value_R = _against(subject, column)
    shown = value_R[rows].tolist()
    is_number = value_R.dtype.kind == "f"
    dots = [
        {"x": x, "y": float(y)}
        for x, y in zip(shown, residual_R, strict=True)
        if not is_number or np.isfinite(x)
    ]
    kind = "quantitative" if is_number else "nominal"
    x: dict[str, Any] = {"field": "x", "type": kind, "title": name, "scale": {"zero": False}}
    y = {"field": "y", "type": "quantitative", "title": "residual"}
    mean_x = {**x, "bin": {"maxbins": BINS}} if is_number else x
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "point", "size": 12, "opacity": 0.4}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "size": 60, "color": "#b3261e"},
            "encoding": {"x": mean_x, "y": {**y, "aggregate": "mean"}},
        },
    ]
    title = f"residuals by {name}; red: mean"
    return _chart(title, data={"values": dots}, layer=layers)


def quantile_chart(subject: Subject) -> Chart:
    """Plot the quantiles of the residuals against the quantiles of a normal distribution."""
    from scipy.special import ndtri

    residual_R = subject.judged.residual_R
    share_Q = (np.arange(QUANTILES) + 0.5) / QUANTILES
    found_Q = np.quantile(residual_R, share_Q)
    normal_Q = float(residual_R.mean()) + float(residual_R.std()) * ndtri(share_Q)
    dots = [{"x": float(x), "y": float(y)} for x, y in zip(normal_Q, found_Q, strict=True)]
    ends = [{"x": float(x), "y": float(x)} for x in (normal_Q[0], normal_Q[-1])]
    encoding = {
        "x": {"field": "x", "type": "quantitative", "title": "normal distribution"},
        "y": {"field": "y", "type": "quantitative", "title": "residual"},
    }
    layers = [
        {
            "data": {"values": ends},
            "mark": {"type": "line", "strokeDash": [4, 3]},
            "encoding": encoding,
        },
        {"data": {"values": dots}, "mark": {"type": "point", "size": 16}, "encoding": encoding},
    ]
    return _chart("quantiles of the residuals", layer=layers)


def _against(subject: Subject, column: str) -> tuple[str, Any]:
    if not column:
        return "prediction", subject.output(subject.judged.scores).astype(float)
    names = [each.name for each in subject.table.searched]
    if column not in names:
        raise UnknownNameError(f"no column {column!r}{nearest(column, names)}")
    found = next(each for each in subject.table.searched if each.name == column)
    if found.number_R is not None:
        return column, found.number_R
    assert found.code_R is not None
    return column, np.array([*found.levels, "missing"], object)[found.code_R]


def _chart(title: str, **parts: Any) -> Chart:
    return Chart({"$schema": SCHEMA, "title": title, "width": 480, "height": 260, **parts})
