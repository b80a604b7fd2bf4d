"""Reducers that compute more, or less, than the usual statistics in one read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from mothtrap.statistics.summary import Floats
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.exponents import count_exponents_of
from mothtrap.statistics.torch.norms import norms
from mothtrap.statistics.torch.raw import copy_bytes, describe, gather_bytes
from mothtrap.statistics.torch.rows import summarize, summarize_and_digest


class _Reducer:
    """Defaults shared by the reducers below."""

    count_exponents_of = staticmethod(count_exponents_of)
    norms = staticmethod(norms)
    copy_bytes = staticmethod(copy_bytes)
    describe = staticmethod(describe)
    gather_bytes = staticmethod(gather_bytes)


class DigestingReducer(_Reducer):
    """Computes digests together with statistics, so that the bytes are read only once.

    Attributes:
        digests: digests of some tensors by identity, valid as long as the tensors are alive.
    """

    def __init__(self) -> None:
        self.digests: dict[int, int] = {}

    def summarize(self, tensors: Sequence[torch.Tensor], statistics: Iterable[str]) -> Floats:
        """Reduce each tensor to one row of sufficient statistics; see `rows.summarize`."""
        return summarize_and_digest(tensors, frozenset(statistics), self.digests)


class ReadAlready(_Reducer):
    """Reuses rows computed earlier, while the tensors were in the CPU caches.

    Args:
        rows: results of `compiled.row_reader` for all tensors to be reduced, by the identities of
            the tensors.
    """

    def __init__(self, rows: Mapping[int, bytes]) -> None:
        self._rows = rows

    def summarize(self, tensors: Sequence[torch.Tensor], statistics: Iterable[str]) -> Floats:
        """Return the row of each tensor; invalid rows are computed again."""
        rows_TF, right_T = compiled.rows_of([self._rows[id(tensor)] for tensor in tensors])
        if not right_T.all():
            wrong = np.flatnonzero(~right_T).tolist()
            rows_TF[wrong] = summarize([tensors[i] for i in wrong], frozenset(statistics))
        return rows_TF
