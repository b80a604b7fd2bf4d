"""Direction in which a step moved the weights, compared with their gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from mothtrap.statistics.products import dot, norm

STEPS: Final = 8
"""Number of first steps whose direction is reported. Chosen by hand."""
WEIGHTS, ELEMENTS = 8, 4096
"""Maximum number of inspected weights of a step, and of elements of each. Chosen by hand."""


def elements(values: Any) -> Any:
    """Return the sampled elements of a weight or gradient as float64."""
    return np.asarray(values).reshape(-1)[:ELEMENTS].astype(np.float64)


def cosines(every: Iterable[tuple[str, Any, Any, Any]]) -> dict[str, float]:
    """Return the cosines of changes and gradients by name: -1 is descent, 1 ascent.

    Args:
        every: name, gradient, weight before, and weight after the step.
    """
    found: dict[str, float] = {}
    for name, *values in every:
        if len(found) == WEIGHTS:
            break
        gradient_N, before_N, after_N = map(elements, values)
        lengths = norm(gradient_N) * norm(after_N - before_N)
        if lengths > 0 and math.isfinite(lengths):
            found[name] = dot(gradient_N, after_N - before_N) / lengths
    return found
