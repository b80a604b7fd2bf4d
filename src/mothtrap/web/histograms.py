"""Histograms of many tensors, each at a few steps: the small charts of one page.

Shape suffixes: S = captured moments, C = columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from mothtrap.core.errors import StepUnavailableError, UnknownNameError
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.statistics.distribution import EXPONENTS
from mothtrap.statistics.exponents import BINS
from mothtrap.web.distributions import Counts, counted
from mothtrap.web.opened import OpenRun

MOST_TENSORS = 32
"""Tensors of one answer; chosen by hand: more than a screen shows."""
MOST_STEPS = 12
"""Steps that a chart shows; chosen by hand: more would cover each other."""
MOST_VALUES = 8_000_000
"""Captured values that are read for one chart; chosen by hand: 50 ms."""
DIGITS = 5
"""Decimals of a share: a thousandth of the height of a chart."""


class Histograms(msgspec.Struct, frozen=True, kw_only=True):
    """Histograms of a tensor at some of the captured steps.

    `shares` are the shares of the values in columns -BINS to BINS: 0 are zeros, -n and n the
    negative and positive values in bin n - 1 of `statistics.exponents`. The columns `low` to `high`
    have values; `signed`: negative columns have, too. `bad` is the share of values that are not
    finite.
    """

    steps: list[int]
    low: int
    high: int
    signed: bool
    shares: list[list[float]]
    bad: list[float]


class HistogramsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Histograms by identity; a tensor without a histogram is left out."""

    tensors: dict[str, Histograms]


def answer(
    opened: OpenRun, identities: Sequence[str], mode: Mode | None, worker: int | None
) -> HistogramsAnswer:
    """Return the histograms of tensors.

    Args:
        opened: the run.
        identities: identities of the tensors.
        mode: mode of the steps; None = training, or all modes without captures in training.
        worker: rank; None = the lowest.
    """
    found = {}
    for identity in identities[:MOST_TENSORS]:
        try:
            found[identity] = _histograms(opened, identity, mode, worker)
        except (UnknownNameError, StepUnavailableError):
            continue
    return HistogramsAnswer(tensors=found)


def _histograms(
    opened: OpenRun, identity: str, mode: Mode | None, worker: int | None
) -> Histograms:
    counts = _counts(opened, opened.run.tensor(identity), mode, worker)
    whole_S1 = counts.sizes[:, None]
    column_SC = np.hstack(
        (counts.bins_S2B[:, 0, ::-1], np.nan_to_num(counts.zero_S)[:, None], counts.bins_S2B[:, 1])
    )
    (held,) = np.nonzero(counts.bins_S2B.sum(axis=(0, 1)))
    return Histograms(
        steps=counts.steps_S.tolist(),
        low=int(held[0]) + 1 if len(held) else BINS + 1,
        high=int(held[-1]) + 1 if len(held) else 0,
        signed=bool(counts.bins_S2B[:, 0].any()),
        shares=(column_SC / whole_S1).round(DIGITS).tolist(),
        bad=(counts.bad_S / counts.sizes).tolist(),
    )


def _counts(opened: OpenRun, tensor: Tensor, mode: Mode | None, worker: int | None) -> Counts:
    if mode is None:
        with contextlib.suppress(StepUnavailableError):
            return _counts(opened, tensor, Mode.TRAIN, worker)
    return counted(opened, tensor, mode, worker, most_moments=MOST_STEPS, most_values=MOST_VALUES)


def tensors_with_histograms(run: Run) -> dict[str, dict[str, str]]:
    """Return the tensors with captured exponents or values: their modules by kind and name."""
    captured = set(_captured(run))
    found: dict[str, dict[str, str]] = {}
    for tensor in run.tensors():
        if tensor.identity in captured:
            found.setdefault(tensor.kind, {})[tensor.name] = tensor.module
    return found


def has_histograms(run: Run) -> bool:
    """Return whether any tensor has captured exponents or values."""
    return next(_captured(run), None) is not None


def _captured(run: Run) -> Iterator[str]:
    """Yield the identities of tensors with captured exponents or values."""
    for worker in run.workers:
        for part in run.parts(worker):
            ids = {int(n) for piece in part.view.raw() for n in np.unique(piece.column("tensor"))}
            for number in ids & part.view.tensors.keys():
                identity = _counted_tensor(part.view.tensors[number])
                if identity:
                    yield identity


def _counted_tensor(info: TensorInfo) -> str:
    """Return the identity of the tensor whose values an array holds or counts; "" for others."""
    if info.kind != "metric":
        return info.identity
    is_counts = info.name.startswith(f"{EXPONENTS}(")
    return info.name[len(EXPONENTS) + 1 : -1] if is_counts else ""
