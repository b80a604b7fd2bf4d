"""Transformers that a script fits to the wrong rows."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

from mothtrap.core.facts.estimators import TransformRefitted

MAX_TRANSFORMS: Final = 64
"""Maximum number of latest fits of transformers that are remembered."""
SCALER: Final = "Scaler"
"""End of the names of transformers that scale columns."""
SELECTS: Final = frozenset(
    {"SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe"}
    | {"GenericUnivariateSelect", "SelectFromModel", "SequentialFeatureSelector"}
)
"""Transformers that select columns by their relation to the labels, but also work without."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Transform:
    """One fit of a transformer; `clock` is its position in the sequence of all fits."""

    clock: int
    name: str
    rows: int
    columns: int
    location: str
    made: weakref.ref[Any]


class Transforms:
    """The latest fits of transformers that the script itself called."""

    def __init__(self) -> None:
        self._fits: list[Transform] = []

    def add(self, clock: int, estimator: Any, shape: tuple[int, int], location: str) -> None:
        """Record that a transformer is fitted to a table of this shape."""
        self._fits.append(
            Transform(
                clock=clock,
                name=type(estimator).__name__,
                rows=shape[0],
                columns=shape[1],
                location=location,
                made=weakref.ref(estimator),
            )
        )
        del self._fits[:-MAX_TRANSFORMS]

    def against(
        self, train_rows: int, rows: int, columns: int, order: int, *, step: int, split: bool
    ) -> list[TransformRefitted]:
        """Return the transformer that was fitted to the training rows, and again to these rows.

        If a scaler was fitted only to these rows, before the model was fitted, return this scaler.
        Otherwise, return the transformer that was fitted to all rows before they were split.

        Args:
            train_rows: number of training rows of a model.
            rows: number of other rows that it predicts.
            columns: number of their columns.
            order: position of the model's fit in the sequence of all fits.
            step: step in progress.
            split: the script has split a table.
        """
        if rows == train_rows:
            return []
        earlier = [one for one in self._fits if one.clock < order]
        before = {one.name: one.location for one in earlier if one.rows == train_rows}
        scalers = {
            one.name: one.location
            for one in earlier
            if one.rows == rows and one.name.endswith(SCALER)
        }
        on_other_rows = {one.name for one in self._fits if one.rows != rows}
        about: dict[str, Any] = {"step": step, "train_rows": train_rows, "eval_rows": rows}
        for name in scalers.keys() - on_other_rows:
            place = scalers[name] or None
            return [TransformRefitted(transform=name, only=True, location=place, **about)]
        for one in self._fits:
            if one.rows == rows and one.name in before:
                about |= {"fit_location": before[one.name] or None}
                place = one.location or None
                return [TransformRefitted(transform=one.name, location=place, **about)]
        whole = [one for one in earlier if one.rows == train_rows + rows and _gives(one, columns)]
        for one in whole if split else ():
            if one.name not in before:
                return [
                    TransformRefitted(
                        transform=one.name,
                        whole=True,
                        supervised=_uses_labels(one.made()),
                        location=one.location or None,
                        **about,
                    )
                ]
        return []


def _gives(one: Transform, columns: int) -> bool:
    """Return whether a transformer returns as many columns.

    Of a transformer that no longer exists, this is known only if it scales columns.
    """
    estimator = one.made()
    if estimator is None:
        return one.name.endswith(SCALER) and one.columns == columns
    if not type(estimator).__module__.startswith("sklearn."):
        return False
    try:
        return len(estimator.get_feature_names_out()) == columns
    except (AttributeError, TypeError, ValueError):  # not every transformer names its columns
        return False


def _uses_labels(estimator: Any) -> bool:
    tags = getattr(estimator, "__sklearn_tags__", None)  # since 1.6
    required = tags is not None and bool(tags().target_tags.required)
    return required or type(estimator).__name__ in SELECTS
