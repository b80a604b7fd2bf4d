"""The fingerprint of an array: equal for equal bytes, type and shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash


def digest_bytes(data: npt.NDArray[np.uint8], dtype: str, shape: Sequence[int]) -> int:
    """Return the xxh3_64 of raw bytes, seeded by element type and shape.

    Args:
        data: uint8, shape (bytes,): the elements in C order.
        dtype: name of the element type without its library, e.g. `bfloat16`.
        shape: lengths of the axes.
    """
    seed = xxhash.xxh3_64_intdigest(f"{dtype}{tuple(shape)}".encode())
    return xxhash.xxh3_64_intdigest(data.data, seed=seed)
