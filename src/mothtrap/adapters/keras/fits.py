"""Calls of `fit`: where they are made, and what they are given."""

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

from mothtrap.tracing.loss_looks import MAX_CONFUSED

if TYPE_CHECKING:
    from mothtrap.adapters.tensorflow.names import Parts


@dataclass(slots=True, eq=False)
class Fit:
    """One call of `fit`: its line, what it was given, and digests of the rows.

    `reference` to the model, which is not kept alive.
    `weighted`: it was given weights of rows or classes; `class_weights` has the number of each
    class, None = not weighed. `shuffles`: those that it was given a part of.
    `earlier`: rows of earlier ones of the model, where this one goes on with their weights.
    `compared`: names of the evaluations whose rows were looked for.
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
        """The model that is trained; None once the script has let go of it."""
        return self.reference()


def began(model: Any, location: str | None) -> Fit:
    """Return a `fit` that begins."""
    return Fit(reference=weakref.ref(model), location=location, label=label_of(location))


def weights_by_class(weights: Any) -> tuple[float, ...] | None:
    """Return the weights of classes that `fit` was given, in order; those not named weigh 1.

    None where there are none, empty where these are more than 20, or such that Keras complains.
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
    """Return the name of a `fit` that is called in a line."""
    return f"fit {os.path.basename(location or '')}".strip()
