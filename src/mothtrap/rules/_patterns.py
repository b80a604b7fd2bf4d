"""Steps of a matrix, grouped by the tensors that they have."""

from __future__ import annotations

import numpy as np

from mothtrap.core.window import Bools, Ints, Matrix


def alike(matrix: Matrix) -> list[tuple[Bools, Ints]]:
    """Return (tensors, rows) of the applied steps for each set of tensors.

    Each set is a mask of shape (T,), in order of first use. Optimizers that take turns have
    different tensors. Steps without any value are left out.
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
