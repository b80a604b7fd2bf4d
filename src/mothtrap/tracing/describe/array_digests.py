"""Digests of arrays that are compared from time to time, such as the weights of a copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MOST_BYTES: Final = 1 << 16
"""Approximate number of bytes of an array that its digest covers: evenly spaced values."""


def digest_of(arrays: Iterable[npt.NDArray[Any]]) -> str:
    """Return a digest of the shapes, types, and some values of arrays."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        values = np.asarray(array).reshape(-1)
        digest.update(values[:: max(1, -(-values.nbytes // MOST_BYTES))].tobytes())
    return digest.hexdigest()
