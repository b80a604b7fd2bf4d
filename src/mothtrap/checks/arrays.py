"""Rows of arrays in memory, as datasets of a check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from mothtrap.checks.subject import Array, DataSet, Rows


class ArraySet:
    """Rows of arrays; see `checks.subject.DataSet`.

    Args:
        inputs: Arrays with one row per sample.
        targets: One row per sample; None without targets. One-hot vectors become class numbers.
        role: Purpose of the rows.
        name: Name for messages.
        location: `file:line` that passed the arrays.
        rows: Indices of the part that has this role; None = all.
        base: Number of the arrays that contain the rows; parts of one have the same number.
    """

    def __init__(
        self,
        inputs: Sequence[Array],
        targets: Array | None,
        role: Literal["train", "evaluation"],
        *,
        name: str,
        location: str | None,
        rows: range | None = None,
        base: int | None = None,
    ) -> None:
        self._inputs, self._targets = list(inputs), class_numbers(targets)
        whole = len(self._inputs[0]) if self._inputs else 0
        self._rows = rows if rows is not None else range(whole)
        self.name, self.location = name, location
        self.role: Literal["train", "evaluation"] = role
        self.size: int | None = len(self._rows)
        self.origin: DataSet | None = None
        self.stored: DataSet | None = None
        self.handed: Sequence[Rows] = ()
        self.random = self.shuffled = False
        self.base = id(self) if base is None else base
        self.places: Sequence[int] | None = self._rows if rows is not None else None
        self.classes: Sequence[str] = ()

    def read(self, indices: Sequence[int], _deadline: float, /) -> Rows:
        """Return rows by index."""
        picked = [self._rows[index] for index in indices]
        return Rows(
            indices=tuple(indices),
            inputs=tuple(part[picked] for part in self._inputs),
            targets=None if self._targets is None else self._targets[picked],
        )


def class_numbers(targets: Array | None) -> Array | None:
    """Return the class number of each one-hot row; other targets are returned unchanged."""
    if (
        targets is None
        or targets.ndim != 2
        or targets.shape[1] < 2
        or targets.dtype.kind not in "biuf"
    ):
        return targets
    hard = bool(np.isin(targets, (0, 1)).all()) and bool((targets.sum(1) == 1).all())
    return np.asarray(targets.argmax(1)) if hard else targets
