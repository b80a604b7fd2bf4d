"""Edits of an explainable boosting machine: its curves are shown, changed, and saved.

Nothing here imports `interpret`; the model's documented attributes are read.

Shape suffixes: B = bins of a term: missing values, the ranges or levels, unknown values.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.behavior.sklearn.monotone import monotone
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.reader.plots import SCHEMA, Chart

Floats = npt.NDArray[np.float64]


class Edit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change to the curve of a column.

    Attributes:
        term: name of the column.
        kind: "set", "smooth", or "monotone".
        score: new score, for "set".
        low, high: range of the column whose bins are set; None for no limit.
        level: level whose score is set, for columns of categories.
        width: number of bins that are averaged, for "smooth".
        direction: "+" or "-", for "monotone".
    """

    term: str
    kind: Literal["set", "smooth", "monotone"]
    score: float = 0.0
    low: float | None = None
    high: float | None = None
    level: str | None = None
    width: int = 3
    direction: str = "+"


class TermEdits:
    """Edits of the single-column terms of an explainable boosting machine (`interpret`).

    `report.patch(edits.change)` tests whether the edits help, and refuses them if they increase the
    loss in a segment.

    Args:
        model: a fitted model for numbers or two classes; it is not changed.

    Attributes:
        model: the edited copy.
        edits: Edits so far, in order.

    Raises:
        ConfigError: the model has no editable terms.
    """

    def __init__(self, model: Any) -> None:
        if not all(hasattr(model, name) for name in ("term_scores_", "term_features_", "bins_")):
            raise ConfigError(
                f"a {type(model).__qualname__} has no terms to edit; "
                "pass a fitted explainable boosting machine of interpret"
            )
        if model.term_scores_[0].ndim > len(model.term_features_[0]):
            raise ConfigError("the model has more than two classes; its terms cannot be edited")
        self._given, self.edits = model, list[Edit]()
        self.model = copy.deepcopy(model)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the columns whose curves can be edited."""
        names = self._given.feature_names_in_
        return tuple(str(names[each[0]]) for each in self._given.term_features_ if len(each) == 1)

    def set(
        self,
        term: str,
        score: float,
        *,
        low: float | None = None,
        high: float | None = None,
        level: str | None = None,
    ) -> None:
        """Set the score of the bins that overlap a range, or of a level.

        Raises:
            UnknownNameError: there is no such term or level.
            ConfigError: a range is given for categories, or a level for numbers.
        """
        self._do(Edit(term=term, kind="set", score=score, low=low, high=high, level=level))

    def smooth(self, term: str, width: int = 3) -> None:
        """Replace each score by the mean of neighboring bins, weighted by their training rows.

        Raises:
            UnknownNameError: there is no such term.
            ConfigError: the column has categories, which have no order.
        """
        self._do(Edit(term=term, kind="smooth", width=width))

    def monotonize(self, term: str, direction: str) -> None:
        """Replace the curve by the nearest curve that only rises ("+") or only falls ("-").

        Raises:
            UnknownNameError: there is no such term.
            ConfigError: the column has categories, or the direction is neither.
        """
        if direction not in ("+", "-"):
            raise ConfigError(f"direction: expected + or -, found {direction!r}")
        self._do(Edit(term=term, kind="monotone", direction=direction))

    def undo(self) -> None:
        """Undo the last edit."""
        if self.edits:
            rest, self.edits, self.model = self.edits[:-1], [], copy.deepcopy(self._given)
            for each in rest:
                self._do(each)

    def change(self, rows: Any, predictions: Any = None) -> Any:  # noqa: ARG002  # for `patch`
        """Return the predictions of the edited model; pass this method to `report.patch`."""
        has_classes = hasattr(self.model, "predict_proba")
        return self.model.predict_proba(rows) if has_classes else self.model.predict(rows)

    def save(self, path: str | Path) -> None:
        """Write the edits as JSON."""
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(self.edits)) + b"\n")

    @classmethod
    def load(cls, model: Any, path: str | Path) -> TermEdits:
        """Return the model with saved edits.

        Raises:
            ConfigError: the file contains no edits.
            UnknownNameError: the model lacks one of the terms.
        """
        try:
            edits = msgspec.json.decode(Path(path).read_bytes(), type=list[Edit])
        except msgspec.DecodeError as err:
            raise ConfigError(f"{path} contains no edits: {err}") from err
        made = cls(model)
        for each in edits:
            made._do(each)
        return made

    def figure(self, term: str) -> Chart:
        """Return the curve of a column before and after the edits."""
        place, bins = self._place(term), self._bins(term)
        rows = []
        for name, model in (("before", self._given), ("after", self.model)):
            score_B = model.term_scores_[place][1:-1]
            if isinstance(bins, Mapping):
                rows += [
                    {"x": str(k), "y": float(score_B[i - 1]), "model": name}
                    for k, i in bins.items()
                ]
            else:
                start_B = [self._lowest(place, bins), *map(float, bins)]
                rows += [
                    {"x": x, "y": float(y), "model": name}
                    for x, y in zip(start_B, score_B, strict=True)
                ]
        is_text = isinstance(bins, Mapping)
        mark = (
            {"type": "point", "size": 80}
            if is_text
            else {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
        )
        kind = "nominal" if is_text else "quantitative"
        return Chart(
            {
                "$schema": SCHEMA,
                "title": f"{term}: share in the score, before and after the edits",
                "width": 480,
                "height": 260,
                "data": {"values": rows},
                "mark": mark,
                "encoding": {
                    "x": {"field": "x", "type": kind, "title": term, "scale": {"zero": False}},
                    "y": {"field": "y", "type": "quantitative", "title": "score"},
                    "color": {"field": "model", "type": "nominal", "sort": None},
                },
            }
        )

    def _do(self, edit: Edit) -> None:
        place, bins = self._place(edit.term), self._bins(edit.term)
        score_B = np.array(self.model.term_scores_[place], np.float64)
        weight_B = np.asarray(self.model.bin_weights_[place], np.float64)[1:-1]
        if edit.kind == "set":
            score_B[_chosen(edit, bins)] = edit.score
        elif isinstance(bins, Mapping):
            raise ConfigError(f"{edit.term} has categories, which have no order")
        elif edit.kind == "smooth":
            score_B[1:-1] = _smooth(score_B[1:-1], weight_B, edit.width)
        else:
            rising = edit.direction == "+"
            score_B[1:-1] = monotone(score_B[1:-1], np.maximum(weight_B, 1e-9), rising=rising)
        self.model.term_scores_[place] = score_B
        self.edits.append(edit)

    def _place(self, term: str) -> int:
        if term not in self.terms:
            raise UnknownNameError(f"there is no term {term!r}{nearest(term, self.terms)}")
        names = self._given.feature_names_in_
        found = [
            i
            for i, each in enumerate(self._given.term_features_)
            if len(each) == 1 and names[each[0]] == term
        ]
        return found[0]

    def _bins(self, term: str) -> Any:
        """Return the cuts of a numeric column, or the bin of each level."""
        return self._given.bins_[self._given.term_features_[self._place(term)][0]][0]

    def _lowest(self, place: int, cuts: npt.NDArray[Any]) -> float:
        """Return where the curve begins: the smallest value of training, where it is known."""
        bounds = getattr(self._given, "feature_bounds_", None)
        if bounds is not None:
            low = float(bounds[self._given.term_features_[place][0]][0])
            if np.isfinite(low):
                return low
        return float(cuts[0]) - 1.0 if len(cuts) else 0.0


def _chosen(edit: Edit, bins: Any) -> npt.NDArray[np.int64]:
    """Return the positions of the bins that an edit sets."""
    if isinstance(bins, Mapping):
        if edit.level is None:
            raise ConfigError(f"{edit.term} has categories; name one with level=")
        names = {str(name): place for name, place in bins.items()}
        if edit.level not in names:
            raise UnknownNameError(f"{edit.term} has no level {edit.level!r}")
        return np.array([names[edit.level]])
    if edit.level is not None:
        raise ConfigError(f"{edit.term} has numbers; give a range with low= and high=")
    cuts = np.asarray(bins, np.float64)
    low = -np.inf if edit.low is None else edit.low
    high = np.inf if edit.high is None else edit.high
    start_B, end_B = np.append(-np.inf, cuts), np.append(cuts, np.inf)
    return np.flatnonzero((end_B > low) & (start_B < high)) + 1


def _smooth(score_B: Floats, weight_B: Floats, width: int) -> Floats:
    """Return means over a window of bins, weighted by their rows."""
    window = np.ones(max(int(width), 1))
    weight_B = np.maximum(weight_B, 1e-9)
    return np.convolve(score_B * weight_B, window, "same") / np.convolve(weight_B, window, "same")
