"""Rows of an evaluation loader that differ from pass to pass, although their labels do not.

A few samples are identified by the indices that the sampler drew. In each pass, their values and
their labels are compared with those of the previous pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.adapters.torch.data.sampled_rows import LEAST_SAMPLES, VALUES, Batch, SampledRows
from mothtrap.core.facts.data import RowsRedrawn
from mothtrap.statistics.torch.in_place import as_array

Array = npt.NDArray[np.float64]
CHANGED = 0.25
"""Smallest share of samples that change in a pass; below that of random flips. Chosen by hand."""
ROUNDING = 1e-3
"""Largest difference of a value that counts as equal, in standard deviations of its row."""


class _Row(NamedTuple):
    """A sample in one pass."""

    pass_number: int
    shape: torch.Size
    values: Array
    label: bytes


class _Tensors(NamedTuple):
    """The inputs of a batch with their place, and its labels."""

    place: str
    inputs: torch.Tensor
    labels: list[torch.Tensor]


class RedrawnRows(SampledRows):
    """Compares some samples of one loader between passes.

    Args:
        report: function that receives the fact, once.
    """

    def __init__(self, report: Callable[[RowsRedrawn], None]) -> None:
        super().__init__()
        self._report = report
        self._rows: dict[int, _Row] = {}
        self._changed: dict[int, list[bool]] = {}

    def _look(self, batch: Batch) -> None:
        again = self._began[batch.pass_number] == self._began.get(batch.pass_number - 1)
        found = None if again else _tensors(batch.tensors, batch.rows)
        if found is None:
            self._done = True  # or several passes without a step: the average over augmentations
            return
        for row, index in batch.followed:
            self._compare(index, _row(found, row, batch.pass_number))
        self._judge(found.place, batch.pass_number, batch.step)

    def _compare(self, index: int, now: _Row) -> None:
        before = self._rows.get(index)
        self._rows[index] = now
        if before is None or before.pass_number != now.pass_number - 1:
            return
        if before.label != now.label:
            self._done = True  # the index does not identify the sample, or its labels are redrawn
        elif before.shape == now.shape:
            same = _are_equal(before.values, now.values)
            self._changed.setdefault(now.pass_number, []).append(not same)

    def _judge(self, place: str, pass_number: int, step: int) -> None:
        """Report two passes in a row in which many samples changed."""
        pairs = [self._changed.get(number, []) for number in (pass_number - 1, pass_number)]
        if self._done or any(len(one) < LEAST_SAMPLES for one in pairs):
            return
        if any(sum(one) < CHANGED * len(one) for one in pairs):
            return
        if len({row.label for row in self._rows.values()}) < 2:
            return
        self._done = True
        self._report(
            RowsRedrawn(
                step=step,
                loader="",
                tensor=place,
                samples=len(pairs[1]),
                changed=sum(pairs[1]),
                passes=pass_number,
                first_step=self._began.get(pass_number - 1, 0),
            )
        )


def _tensors(tensors: Sequence[tuple[str, torch.Tensor]], rows: int) -> _Tensors | None:
    """Return the inputs and the labels of a batch with one row per sample.

    None without labels, and for targets that are as large as the inputs: the noise in the inputs
    can be what the model learns to remove. A mask of 0 and 1 counts as a label.
    """
    fitting = [(p, t) for p, t in tensors if t.ndim and t.shape[0] == rows and t.is_cpu]
    found = next(((p, t) for p, t in fitting if t.ndim > 1 and not t.is_complex()), None)
    if found is None:
        return None
    place, inputs = found
    labels = [t for _, t in fitting if t is not inputs]
    if not labels or any(t.numel() >= inputs.numel() and not _is_mask(t) for t in labels):
        return None
    return _Tensors(place, inputs, labels)


def _is_mask(tensor: torch.Tensor) -> bool:
    if tensor.is_floating_point() or tensor.is_complex():
        return False
    return bool(((tensor == 0) | (tensor == 1)).all())


def _row(found: _Tensors, row: int, pass_number: int) -> _Row:
    one = found.inputs[row].detach()
    some = one.reshape(-1)[:: max(1, one.numel() // VALUES)][:VALUES].to(torch.float64)
    label = b"".join(as_array(t[row].detach().to(torch.float64)).tobytes() for t in found.labels)
    return _Row(pass_number, one.shape, np.array(as_array(some)), label)


def _are_equal(old: Array, new: Array) -> bool:
    spread = float(old.std()) if np.isfinite(old).all() else 0.0
    return bool(np.allclose(old, new, rtol=0, atol=ROUNDING * spread, equal_nan=True))
