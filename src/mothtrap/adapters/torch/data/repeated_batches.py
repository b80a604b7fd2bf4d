"""Batches that repeat an earlier batch of the same pass, and whether this is by chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch
import xxhash

from mothtrap.statistics.torch.row_digests import row_digests

MAX_DISTINCT = 4096
"""Maximum number of distinct rows of a pass that are counted. Chosen by hand: with more rows,
batches do not repeat by chance.
"""
MAX_ROWS = 512
"""Maximum number of rows of a batch that are counted. Chosen by hand: 0.1 ms."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd factor that makes the digest of a row depend on the order of its tensors."""


@dataclass(slots=True, eq=False)
class RepeatedBatches:
    """Counts the batches of a pass that are equal to an earlier batch.

    Attributes:
        repeated: batches that were equal to an earlier batch, bit for bit.
        rows: number of rows of the first repeated batch.
        other_indices: number of `repeated` batches for which the sampler drew different indices.
        are_known: the indices of every batch are known.
    """

    repeated: int = 0
    rows: int = 0
    other_indices: int = 0
    are_known: bool = True
    _indices_of: dict[bytes, int] = field(default_factory=dict)
    _counts: Counter[int] = field(default_factory=Counter)

    def add(self, tensors: list[torch.Tensor], indices: tuple[int, ...]) -> bool:
        """Compare a batch with earlier batches; return whether it equals one of them.

        Args:
            tensors: tensors of the batch, on the CPU, each of shape (rows, ...).
            indices: dataset indices that the sampler drew; empty if unknown.
        """
        rows = max((t.shape[0] if t.ndim else 0 for t in tensors), default=0)
        digest, whole_R, varies = xxhash.xxh3_128(), np.zeros(rows, np.uint64), False
        for tensor in tensors:
            digest_R = row_digests(tensor)
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode() + digest_R.tobytes())
            varies = varies or bool((digest_R != digest_R[:1]).any())
            if len(digest_R) == rows:
                whole_R = whole_R * MIXER + digest_R
        if not varies:
            return False
        self.are_known = self.are_known and bool(indices)
        name, drawn = digest.digest(), hash(indices)
        is_repeated = name in self._indices_of
        if is_repeated:
            self.repeated += 1
            self.rows = self.rows or rows
            self.other_indices += self._indices_of[name] != drawn
        self._indices_of[name] = drawn
        if len(self._counts) <= MAX_DISTINCT:
            self._counts.update(whole_R[:MAX_ROWS].tolist())
        return is_repeated

    @property
    def equal_rows(self) -> float:
        """Probability that two rows of the pass are equal."""
        total = self._counts.total()
        if total < 2:
            return 0.0
        pairs = sum(count * (count - 1) for count in self._counts.values())
        return pairs / (total * (total - 1))

    def forget(self) -> None:
        """Discard the digests at the end of the pass."""
        self._indices_of.clear()
        self._counts.clear()
