"""Batches of a pass that are all the same, of those that are looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy.typing as npt

Array = npt.NDArray[Any]
TELL_AT: Final = (8, 32)
"""Numbers of batches that are all the same at which this is told."""


class SameBatches:
    """Counts batches as long as each is equal to the first one of its pass.

    Attributes:
        count: batches of the pass in progress that were looked at, all of them equal; 0 where
            two have differed.
        passes: that have begun.
    """

    def __init__(self) -> None:
        self.count, self.passes = 0, 1
        self._first: bytes | None = None
        self._differed = False

    def begin(self) -> None:
        """Take that a pass begins."""
        self.count, self._first, self._differed = 0, None, False
        self.passes += 1

    def add(self, arrays: Sequence[Array]) -> bool:
        """Take a batch; return whether it is time to tell of it.

        Args:
            arrays: inputs and targets, rows first. Batches whose inputs are all one row say
                nothing.
        """
        if self._differed:
            return False
        digest = hashlib.blake2b(digest_size=16)
        for array in arrays:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
        name = digest.digest()
        if self._first is None:
            self._first = name
        if name != self._first or not any(_rows_differ(array) for array in arrays[:-1]):
            self.count, self._differed = 0, True
            return False
        self.count += 1
        return self.count in TELL_AT


def _rows_differ(array: Array) -> bool:
    return bool(array.ndim and len(array) > 1 and (array != array[:1]).any())
