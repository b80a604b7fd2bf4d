"""Attributions as charts: each image with its map, or a bar for each column.

Shape suffixes: R = rows, H = height, W = width.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.attribution import Attribution, Method, attribute
from mothtrap.behavior.inside import Floats, channel_axis, in_plane, network_of
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.png import encode, pixels
from mothtrap.reader.plots import SCHEMA, Chart

IMAGES = 8
"""Images in one picture; chosen by hand."""
ROWS = 256
"""Rows over which the bars of columns are means; chosen by hand."""
MOST_COLUMNS = 20
SIDE = 96
"""Width and height of a shown image in pixels."""
TITLES = {
    "saliency": "saliency: size of the gradient of the margin",
    "integrated_gradients": "integrated gradients: share in the margin (red: for the class)",
    "grad_cam": "Grad-CAM: where the network detects the predicted class",
}


def attribution_chart(subject: Subject, method: Method, rows: Any = None) -> Chart:
    """Return attributions as a chart: images with their maps, or the mean size per column.

    Args:
        subject: The probed model and its rows.
        method: "saliency", "integrated_gradients", or "grad_cam".
        rows: indices of the subject's rows; by default evenly spaced rows.

    Raises:
        NotApplicable: the model is not a network, or the method does not apply to its inputs.
    """
    network_of(subject)
    data = subject.table.data
    shape = getattr(data, "shape", ())
    if len(shape) in (3, 4) and not hasattr(data, "columns"):
        chosen = _spaced(subject, IMAGES) if rows is None else np.asarray(rows)
        return _beside(subject, chosen, attribute(subject, chosen, method))
    if method == "grad_cam" or not subject.table.columns:
        raise NotApplicable("the inputs are not images")
    chosen = _spaced(subject, ROWS) if rows is None else np.asarray(rows)
    return _bars(subject, attribute(subject, chosen, method))


def _spaced(subject: Subject, count: int) -> npt.NDArray[np.int64]:
    places = np.linspace(0, len(subject.asked) - 1, min(count, len(subject.asked))).astype(int)
    return np.asarray(subject.asked[np.unique(places)])


def _bars(subject: Subject, found: Attribution) -> Chart:
    size_F = np.abs(found.values).mean(axis=0)
    order = np.argsort(size_F)[::-1][:MOST_COLUMNS]
    rows = [{"column": subject.table.names[i], "size": float(size_F[i])} for i in order]
    encoding = {
        "y": {"field": "column", "type": "nominal", "sort": None, "title": None},
        "x": {"field": "size", "type": "quantitative", "title": "mean size"},
    }
    return Chart(
        {
            "$schema": SCHEMA,
            "title": TITLES[found.method],
            "width": 420,
            "data": {"values": rows},
            "mark": {"type": "bar", "tooltip": True},
            "encoding": encoding,
        }
    )


def _beside(subject: Subject, rows: npt.NDArray[np.int64], found: Attribution) -> Chart:
    """Return images in a row, and their maps below."""
    images = np.asarray(subject.table.data[rows])
    axis = channel_axis(images.shape)
    if axis == 1:
        images = np.moveaxis(images, 1, -1)
    low, high = float(images.min()), float(images.max())
    images = (images - low) / max(high - low, 1e-12)
    maps = found.values if found.method == "grad_cam" else in_plane(found.values)
    cells = []
    predicted = subject.judged.scores[rows].argmax(axis=1)
    for place, row in enumerate(rows):
        name = f"row {int(subject.judged.rows_R[row])}"
        if not subject.reading.is_regression:
            name += f": {subject.reading.classes[predicted[place]]}"
        shown = _shown(images[place])
        cells.append({"row": "input", "at": name, "url": _url(shown)})
        over = _colored(maps[place], images[place].shape[:2], signed=found.method[0] == "i")
        cells.append({"row": "attribution", "at": name, "url": _url(over)})
    named = {"type": "nominal", "sort": None, "title": None}
    labels = {"domain": False, "ticks": False, "labelAngle": 0}
    encoding = {
        "x": {"field": "at", **named, "axis": labels},
        "y": {"field": "row", **named, "axis": labels},
        "url": {"field": "url", "type": "nominal"},
    }
    return Chart(
        {
            "$schema": SCHEMA,
            "title": TITLES[found.method],
            "width": {"step": SIDE + 8},
            "height": {"step": SIDE + 8},
            "data": {"values": cells},
            "mark": {"type": "image", "width": SIDE, "height": SIDE},
            "encoding": encoding,
        }
    )


def _shown(image: Floats) -> npt.NDArray[np.uint8]:
    return _enlarged(pixels(np.clip(image, 0, 1)))


def _colored(values: Floats, shape: tuple[int, ...], *, signed: bool) -> npt.NDArray[np.uint8]:
    """Return a map in colors: white to red, with a sign blue to white to red."""
    most = float(np.abs(values).max()) or 1.0
    level = np.clip(values / most, -1, 1) if signed else np.clip(np.abs(values) / most, 0, 1)
    high, wide = shape
    up = level[np.arange(high) * level.shape[0] // high][
        :, np.arange(wide) * level.shape[1] // wide
    ]
    for_it, against = np.clip(up, 0, 1), np.clip(-up, 0, 1)
    red, green, blue = 1 - against, 1 - for_it - against, 1 - for_it
    return _enlarged((255 * np.stack([red, green, blue], axis=-1) + 0.5).astype(np.uint8))


def _enlarged(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return an image with each pixel repeated, so that small images are not blurred."""
    times = max(1, round(2 * SIDE / max(image.shape[:2])))
    return np.repeat(np.repeat(image, times, axis=0), times, axis=1)


def _url(image: npt.NDArray[np.uint8]) -> str:
    return f"data:image/png;base64,{base64.b64encode(encode(image)).decode()}"
