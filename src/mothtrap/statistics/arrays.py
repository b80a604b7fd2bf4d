"""Interface of the reductions for an array library, and their implementation for host arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.statistics import numpy as host
from mothtrap.statistics.digest import COLUMNS, Digests
from mothtrap.statistics.exponents import Counts
from mothtrap.statistics.summary import Floats

Array = npt.NDArray[Any]
ArrayT = TypeVar("ArrayT")
ArrayC = TypeVar("ArrayC", contravariant=True)


class Arrays(Protocol[ArrayC]):
    """Statistics, bytes and digests for arrays of one library; a module of this package.

    All implementations give the same numbers for equal values, to the accuracy that
    `statistics.torch.summarize` promises, and the same bytes and digests for equal bits.
    """

    def summarize(self, arrays: Sequence[ArrayC], statistics: Collection[str], /) -> Floats:
        """Return one row of sufficient statistics of each array."""

    def norms(self, arrays: Sequence[ArrayC], /) -> Floats:
        """Return rows with only count, l2, nan and inf, as cheaply as possible."""

    def count_exponents_of(self, arrays: Sequence[ArrayC], /) -> Counts:
        """Return counts by sign and power of two, int64, shape (T, 2, 64)."""

    def describe(self, array: ArrayC, /) -> tuple[str, tuple[int, ...], int]:
        """Return the element type, shape and number of bytes."""

    def copy_bytes(self, array: ArrayC, out_N: npt.NDArray[np.uint8], /) -> None:
        """Write the array in C order, little-endian."""

    def gather_bytes(
        self, arrays: Sequence[ArrayC], begins: Sequence[int], out_N: npt.NDArray[np.uint8], /
    ) -> None:
        """Write several arrays in C order, each from an offset in the same memory."""

    def digests(self, arrays: Sequence[ArrayC], /) -> Digests:
        """Return the xxh3_64 of each array's elements in C order, seeded by type and shape."""

    def row_digests(self, array: ArrayC, columns: int = COLUMNS, /) -> Digests:
        """Return a 64-bit digest of every row, equal for bit-identical rows."""

    def to_numpy(self, array: ArrayC, /) -> Array:
        """Return the values on the host, as a read-only view if possible."""


class HostArrays(Generic[ArrayT]):
    """Implementation for a library whose arrays NumPy can read.

    Args:
        to_numpy: returns an array's values as a NumPy array, preferably as a view: the result is
            only read, and not kept.
    """

    def __init__(self, to_numpy: Callable[[ArrayT], Array]) -> None:
        self.to_numpy = to_numpy

    def summarize(self, arrays: Sequence[ArrayT], statistics: Collection[str], /) -> Floats:
        """Return one row of sufficient statistics of each array."""
        return host.summarize(self._read(arrays), statistics)

    def norms(self, arrays: Sequence[ArrayT], /) -> Floats:
        """Return rows with count, l2, nan and inf only."""
        return host.norms(self._read(arrays))

    def count_exponents_of(self, arrays: Sequence[ArrayT], /) -> Counts:
        """Return counts by sign and power of two, int64, shape (T, 2, 64)."""
        return host.count_exponents_of(self._read(arrays))

    def describe(self, array: ArrayT, /) -> tuple[str, tuple[int, ...], int]:
        """Return the element type, shape and number of bytes."""
        return host.describe(self.to_numpy(array))

    def copy_bytes(self, array: ArrayT, out_N: npt.NDArray[np.uint8], /) -> None:
        """Write the array in C order, little-endian."""
        host.copy_bytes(self.to_numpy(array), out_N)

    def gather_bytes(
        self, arrays: Sequence[ArrayT], begins: Sequence[int], out_N: npt.NDArray[np.uint8], /
    ) -> None:
        """Write several arrays in C order, each from an offset in the same memory."""
        host.gather_bytes(self._read(arrays), begins, out_N)

    def digests(self, arrays: Sequence[ArrayT], /) -> Digests:
        """Return the digest of each array."""
        return host.digests(self._read(arrays))

    def row_digests(self, array: ArrayT, columns: int = COLUMNS, /) -> Digests:
        """Return a 64-bit digest of every row, equal for bit-identical rows."""
        return host.row_digests(self.to_numpy(array), columns)

    def _read(self, arrays: Sequence[ArrayT]) -> list[Array]:
        return [self.to_numpy(array) for array in arrays]
