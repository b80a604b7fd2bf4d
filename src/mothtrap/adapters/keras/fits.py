"""Calls to `fit`: their location and their arguments."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.describe.target_samples import MAX_CONFUSED

if TYPE_CHECKING:
    from mothtrap.adapters.tensorflow.internals import Parts


@dataclass(slots=True, eq=False)
class Fit:
    """One `fit` call: its line, its arguments, and digests of the rows.

    `reference` refers to the model without keeping it alive.
    `weighted`: it received weights of rows or classes; `class_weights` has the weight of each
    class, None = no weights. `shuffles`: shuffles of which it received a part.
    `earlier`: rows of earlier `fit` calls of the model, if this one continues with their weights.
    `compared`: names of the evaluations whose rows were compared.
    """

    reference: weakref.ref[Any]
    location: str | None
    label: str
    digests: npt.NDArray[np.uint64] | None = None
    earlier: npt.NDArray[np.uint64] | None = None
    compared: set[str] = field(default_factory=set)
    duplicates: float = 0.0
    weighted: bool = False
    class_weights: tuple[float, ...] | None = None
    shuffles: Sequence[tuple[weakref.ref[Any], Parts]] = ()

    @property
    def model(self) -> Any:
        """The trained model; None once the script has released it."""
        return self.reference()


def began(model: Any, location: str | None) -> Fit:
    """Create the record of a `fit` that begins."""
    return Fit(reference=weakref.ref(model), location=location, label=label_of(location))


def weights_by_class(weights: Any) -> tuple[float, ...] | None:
    """Return the class weights passed to `fit`, in order; unnamed classes have weight 1.

    None if there are none; empty if there are more than 20, or if Keras rejects them.
    """
    if not weights:
        return None
    if not isinstance(weights, dict):
        return ()
    numbers = (*weights, *weights.values())
    if not all(isinstance(one, Real) and math.isfinite(one) for one in numbers):
        return ()
    last = int(max(weights))
    if last >= MAX_CONFUSED:
        return ()
    return tuple(float(weights.get(label, 1.0)) for label in range(last + 1))


def label_of(location: str | None) -> str:
    """Return the label of a `fit` called on a line."""
    return f"fit {os.path.basename(location or '')}".strip()
