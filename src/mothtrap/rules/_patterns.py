"""Steps of a matrix that own the same tensors."""

from __future__ import annotations

import numpy as np

from mothtrap.core.window import Bools, Ints, Matrix


def alike(matrix: Matrix) -> list[tuple[Bools, Ints]]:
    """Return (tensors, rows) of the steps that were applied, by which tensors they have.

    Tensors are a mask of shape (T,); sets of them come in the order in which they did.
    Optimizers that take turns own different tensors; a step without any row is left out.
    """
    usable_S: Bools = matrix.present_ST.any(axis=1) & ~matrix.skipped_S
    rows = np.flatnonzero(usable_S)
    present_ST = matrix.present_ST[rows]
    if (present_ST == present_ST[:1]).all():
        return [(present_ST[0], rows)] if len(rows) else []
    groups: dict[bytes, list[int]] = {}
    for row, bits in zip(rows.tolist(), np.packbits(present_ST, axis=1), strict=True):
        groups.setdefault(bits.tobytes(), []).append(row)
    return [(matrix.present_ST[own[0]], np.array(own)) for own in groups.values()]
