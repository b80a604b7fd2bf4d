"""Mean and standard deviation of the inputs of a model, in training and in evaluation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.steps import Mode

MAX_CELLS: Final = 1 << 24
"""Maximum number of inspected cells of an array: about 50 ms, once."""
MAX_ROWS: Final = 4096


def input_scale(
    array: npt.NDArray[Any],
    *,
    module: str,
    argument: str,
    mode: Mode,
    step: int,
    location: str | None,
    cells: int = MAX_CELLS,
) -> InputDistribution | None:
    """Return the mean and standard deviation of an input; None if they are unknown.

    Args:
        array: some rows of the input, or all.
        module: name of the model.
        argument: name of the input among the model's inputs.
        mode: mode of the call.
        step: step of training.
        location: the line to change.
        cells: maximum number of cells that are read.
    """
    if array.dtype.kind not in "fiu" or array.ndim < 2 or not array.size:
        return None
    most = min(MAX_ROWS, max(1, cells // array[0].size))
    rows = array[:: -(-len(array) // most)]
    values = rows.reshape(-1)[:cells].astype(np.float64)
    if not np.isfinite(values).all():
        return None
    return InputDistribution(
        step=step,
        mode=mode,
        module=module,
        argument=argument,
        rows=len(rows),
        mean=float(values.mean()),
        std=float(values.std()),
        zeros=float((values == 0).mean()),
        location=location,
    )
