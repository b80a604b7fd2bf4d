"""One value per step of a series: an evaluation has a row for each of its batches.

Shape suffixes: N = rows, U = steps, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.window import Floats, Ints


def step_values(
    steps_N: Ints, values_N: Floats, known: Mapping[int, float] | None = None
) -> tuple[Ints, Floats]:
    """Return each step once, with the mean of its finite rows; NaN without finite rows.

    Args:
        steps_N: ascending.
        values_N: may contain NaN and infinities.
        known: values by step that replace the mean.
    """
    if not len(steps_N):
        return steps_N, values_N
    start_U = np.flatnonzero(np.diff(steps_N, prepend=steps_N[0] - 1))
    finite_N = np.isfinite(values_N)
    count_U = np.add.reduceat(finite_N.astype(np.float64), start_U)
    # Divided before they are added: the sum of huge numbers may be infinite.
    share_N = np.repeat(count_U, np.diff(start_U, append=len(steps_N)))
    part_N = np.where(finite_N, values_N, 0.0) / np.maximum(share_N, 1.0)
    value_U = np.where(count_U > 0, np.add.reduceat(part_N, start_U), np.nan)
    step_U = steps_N[start_U]
    for step, value in (known or {}).items():
        value_U[(step_U == step) & np.isfinite(value_U)] = value
    return step_U, value_U


def evaluation_losses(observed: Iterable[Evaluation], of: str) -> dict[int, float]:
    """Return the losses of evaluations of one series by step, weighted by the rows of each batch.

    Args:
        observed: evaluations of all call sites.
        of: label of the series: the line of the loss.
    """
    found: dict[int, list[float]] = {}
    for one in observed:
        if one.site == of or one.site.startswith(f"{of} from "):
            found.setdefault(one.step, []).append(one.value)
    # Of a line that several others call, the series has the rows of all of them.
    return {step: values[0] for step, values in found.items() if len(values) == 1}
