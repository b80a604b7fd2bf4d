"""Pictures of the features that a network computes: as dots on a plane, by class.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.inside import features, network_of, questions
from mothtrap.behavior.sklearn.projection import TSNE_ROWS, Floats, Projection, project
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import ConfigError, StepUnavailableError, UnknownNameError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.reader.plots import SCHEMA, Chart

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

ROWS = 2_000
MOST_STEPS = 6
"""Steps in one picture; chosen by hand."""
TITLES = {"pca": "principal components", "tsne": "t-SNE"}


def latent_chart(subject: Subject, method: Projection = "pca") -> Chart:
    """Plot the features before the last layer as points, colored by class.

    Raises:
        NotApplicable: the model is not a network, or has no hidden layer.
        NotEnoughData: there are fewer than 10 rows.
    """
    network, rows = network_of(subject), np.sort(subject.asked[:ROWS])
    given = subject.table.take(rows).data
    with questions(subject, len(given)):
        value_RF = features(network.layers(given))
    place_R2 = project(value_RF, method)
    target_R = subject.judged.target_R[rows]
    is_regression = subject.reading.is_regression
    labels = target_R if is_regression else [str(subject.reading.classes[k]) for k in target_R]
    dots = _dots(place_R2, labels)
    if not is_regression:
        for dot, wrong in zip(dots, subject.judged.wrong_R[rows], strict=True):
            dot["prediction"] = "wrong" if wrong else "right"
    title = f"features before the last layer, {TITLES[method]}"
    return Chart({"$schema": SCHEMA, "title": title, **_scatter(dots, is_regression)})


def latent_space(
    run: Run,
    tensor: str,
    labels: str | Sequence[Any] | npt.NDArray[Any] | None = None,
    *,
    method: Projection = "pca",
    mode: Mode | str = "eval",
    most_steps: int = MOST_STEPS,
) -> Chart:
    """Plot how the activations of a layer move over the steps of a run.

    The rows must be the same at each step, such as the rows of an evaluation. The principal
    components are computed from all shown steps together, so that the planes can be compared. A
    t-SNE starts from the plane of the previous step.

    Args:
        run: a run whose collections captured all values of the tensor.
        tensor: name of the tensor, e.g. `activation:features.4`.
        labels: class of each row, or the name of a captured tensor that holds it.
        method: "pca" or "tsne".
        mode: mode of the steps, e.g. "eval" or "train".
        most_steps: number of steps to show, evenly spaced.

    Raises:
        UnknownNameError: no values of the tensor were captured in this mode.
        ConfigError: the steps have different rows, or the labels do not fit.
        NotEnoughData: there are fewer than 10 rows.
    """
    chosen = run.tensor(tensor)
    keys = chosen.raw_keys(Mode(mode))
    if not keys:
        raise UnknownNameError(
            f"no values of {chosen.identity} were captured in the mode {mode!r}; capture them with "
            "a collection that has `raw = true`"
        )
    places_S = np.unique(np.linspace(0, len(keys) - 1, most_steps).astype(int))
    shown = [keys[place] for place in places_S]
    parts = [_flat(np.asarray(chosen.at(key))) for key in shown]
    if len({part.shape for part in parts}) > 1:
        raise ConfigError(
            f"{chosen.identity} has a different number of rows at different steps; capture the "
            "same rows at each step"
        )
    names = _labels(run, labels, shown[-1], len(parts[0]))
    places = _places(parts, method)
    dots = []
    for key, place_R2 in zip(shown, places, strict=True):
        dots += [{**dot, "step": int(key.step)} for dot in _dots(place_R2, names)]
    title = f"{chosen.identity} of {run.id}, {TITLES[method]}"
    facet = {"field": "step", "type": "ordinal", "title": "step"}
    plane = _scatter(dots, is_number=False, side=220)
    data = plane.pop("data")
    return Chart(
        {"$schema": SCHEMA, "title": title, "data": data, "facet": facet, "columns": 3}
        | {"spec": plane, "resolve": {"scale": _own_scales(method)}}
    )


def _own_scales(method: Projection) -> dict[str, str]:
    return {"x": "independent", "y": "independent"} if method == "tsne" else {}


def _places(parts: list[Floats], method: Projection) -> list[Floats]:
    """Return the plane of each step."""
    if method == "pca":
        return np.split(project(np.concatenate(parts), "pca"), len(parts))
    found: list[Floats] = []
    for part in parts:
        found.append(project(part[:TSNE_ROWS], "tsne", found[-1] if found else None))
    return found


def _flat(values: npt.NDArray[Any]) -> Floats:
    """Return activations as features (R, F): maps as the mean over their positions."""
    wide: Floats = values.astype(np.float64)
    if wide.ndim == 4:
        wide = wide.mean(axis=(2, 3))
    return wide.reshape(len(wide), -1)


def _labels(run: Run, given: Any, key: StepKey, count: int) -> list[str] | None:
    if given is None:
        return None
    if isinstance(given, str):
        try:
            given = run.tensor(given).at(key)
        except StepUnavailableError as err:
            raise ConfigError(f"labels: {err}") from err
    values = np.asarray(given)
    if values.ndim == 2:
        values = values.argmax(axis=1)
    if len(values) != count:
        raise ConfigError(f"labels: there are {len(values):,} labels for {count:,} rows")
    return [str(value) for value in values.tolist()]


def _dots(place_R2: Floats, labels: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"x": float(f"{x:.4g}"), "y": float(f"{y:.4g}"), "row": row}
        for row, (x, y) in enumerate(place_R2)
    ]
    if labels is not None:
        for row, label in zip(rows, labels[: len(rows)], strict=True):
            row["class"] = label if isinstance(label, str) else float(label)
    return rows


def _scatter(dots: list[dict[str, Any]], is_number: bool, side: int = 420) -> dict[str, Any]:
    axis = {"type": "quantitative", "axis": None, "scale": {"zero": False}}
    encoding: dict[str, Any] = {"x": {"field": "x", **axis}, "y": {"field": "y", **axis}}
    if "class" in dots[0]:
        kind = "quantitative" if is_number else "nominal"
        many = len({dot["class"] for dot in dots}) > 10
        scheme = "viridis" if is_number else "tableau20" if many else "tableau10"
        title = "target" if is_number else "class"
        encoding["color"] = {
            "field": "class",
            "type": kind,
            "title": title,
            "scale": {"scheme": scheme},
        }
    if "prediction" in dots[0]:
        shapes = {"domain": ["right", "wrong"], "range": ["circle", "cross"]}
        encoding["shape"] = {"field": "prediction", "type": "nominal", "scale": shapes}
    mark = {"type": "point", "filled": True, "size": 30, "opacity": 0.7, "tooltip": True}
    return {
        "data": {"values": dots},
        "width": side,
        "height": side,
        "mark": mark,
        "encoding": encoding,
    }
