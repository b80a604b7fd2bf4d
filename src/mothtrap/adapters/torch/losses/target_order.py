"""The targets of each loss call site, batch after batch: whether they come in an order."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from mothtrap.adapters.torch.data.loaders import LoaderObserver
from mothtrap.adapters.torch.data.nonfinite_inputs import spots_in
from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import LossTerm
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.core.facts.data import NonfiniteInput, TargetOrder
from mothtrap.statistics.torch.in_place import as_array

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

EVERY_STEP, THEN_EVERY = 256, 32
"""Backwards of a call site whose targets are read: the first so many, then one in so many.
On an accelerator, where each waits for it, one in `ON_DEVICE_EVERY` of the first ones."""
ON_DEVICE_EVERY = 8
MOST = 512
"""Steps of a call site that are told of."""
TELL_AT = (8, 16, 32, 64, 128, 256, 512)
"""Steps after which they are told of."""
BINS = 64
"""Groups that classes are counted in."""
SITES = 16
TARGETS = 1 << 16
"""Targets of a batch that are counted."""

Moments = tuple[float, float, float]


@dataclass(slots=True)
class _Site:
    """Targets of one call site; the last entry belongs to the step in progress."""

    backwards: int = 0
    steps: list[int] = field(default_factory=list)
    counts: list[list[int]] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)


class TargetOrderObserver:
    """Called with each loss at the entry of its backward."""

    def __init__(self, job: Job, loaders: LoaderObserver) -> None:
        self._job, self._loaders = job, loaders
        self._sites: dict[str, _Site] = {}

    def loss_began(self, loss: BackwardRoot) -> None:
        """Read the targets of a loss where they are due."""
        site, location, root, checkpointed = loss.site, loss.place, loss.root, loss.recomputes
        known = self._sites.get(site)
        if known is None:
            if len(self._sites) >= SITES:
                return
            known = self._sites[site] = _Site()
        number, known.backwards = known.backwards, known.backwards + 1
        every = 1 if root.device.type == "cpu" else ON_DEVICE_EVERY
        if number % (every if number < EVERY_STEP else THEN_EVERY) or len(known.steps) > MOST:
            return
        step = self._job.grouper.step
        if known.steps and step != known.steps[-1] and len(known.steps) in TELL_AT:
            self._tell(site, location, known)
        for term in graph.loss_terms(root.grad_fn) if root.grad_fn is not None else []:
            target = loss_values.target(term, checkpointed=checkpointed)
            if target is None or not is_plain(target):
                continue
            if term.operation != "elementwise":
                counts = _counts(term, target.detach().reshape(-1)[:TARGETS])
                found = counts is not None and _add_counts(known, step, counts)
            else:
                rows = term.prediction_shape[0] if term.prediction_shape else 0
                found = target.numel() == rows and _add_values(known, step, target)
            if found:
                return
        self._add_loaded(known, step)

    def nonfinite(self, location: str | None, root: torch.Tensor, checkpointed: bool) -> bool:
        """Look at the targets of a loss that is not finite though all outputs of the model are.

        Returns:
            Whether values that are not finite were found in the data, and reported.
        """
        batch = self._loaders.latest
        if batch is not None and batch.told:
            return True
        for term in graph.loss_terms(root.grad_fn) if root.grad_fn is not None else []:
            target = loss_values.target(term, checkpointed=checkpointed)
            spots = spots_in(target) if target is not None else None
            if spots is None or target is None:
                continue
            size = target.shape[0] if target.ndim else 1
            self._job.recorder.notes.observe(
                NonfiniteInput(
                    step=self._job.grouper.step,
                    tensor="target",
                    source="the loss",
                    from_loader=False,
                    nan=spots.nan,
                    inf=spots.inf,
                    rows=spots.rows,
                    row_count=spots.row_count,
                    samples=batch.samples(spots.rows, size) if batch is not None else (),
                    computed=self._loaders.provenance.gave_finite(target.numel()),
                    location=location,
                )
            )
            return True
        return False

    def _add_loaded(self, known: _Site, step: int) -> None:
        """Take the targets out of the loader's batch: a loss written by hand keeps none."""
        batch = self._loaders.latest
        alive = [ref() for _, ref in batch.tensors] if batch is not None and batch.trains else []
        last = alive[-1] if len(alive) > 1 else None
        if last is None or not last.ndim or last.numel() != last.shape[0]:
            return
        if last.is_floating_point():
            _add_values(known, step, last)
        elif last.dtype is torch.int64:
            labels = as_array(last.reshape(-1).cpu())
            if labels.min(initial=0) >= 0 and labels.max(initial=0) < BINS:
                _add_counts(known, step, np.bincount(labels).tolist())

    def _tell(self, site: str, location: str | None, known: _Site) -> None:
        classes = max((len(counts) for counts in known.counts), default=0)
        batch = self._loaders.latest
        source = batch.source if batch is not None and batch.trains else None
        self._job.recorder.notes.observe(
            TargetOrder(
                step=self._job.grouper.step,
                site=site,
                steps=tuple(known.steps),
                counts=tuple((*c, *[0] * (classes - len(c))) for c in known.counts),
                moments=tuple(known.moments),
                loader=source.label if source else None,
                sampler=source.plan.sampler if source else None,
                location=location,
            )
        )


def _add_counts(known: _Site, step: int, counts: list[int]) -> bool:
    if known.steps and known.steps[-1] == step and known.counts:
        pairs = itertools.zip_longest(known.counts[-1], counts, fillvalue=0)
        known.counts[-1] = [a + b for a, b in pairs]
    elif known.moments:
        return False  # losses of two kinds
    else:
        known.counts.append(counts)
        known.steps.append(step)
    return True


def _add_values(known: _Site, step: int, target: torch.Tensor) -> bool:
    if not target.is_floating_point() or not target.numel():
        return False
    values = target.detach().reshape(-1)[:TARGETS].double().cpu()
    moments = (float(len(values)), float(values.mean()), float(values.var(correction=0)))
    if known.steps and known.steps[-1] == step and known.moments:
        known.moments[-1] = _merged(known.moments[-1], moments)
    elif known.counts:
        return False
    else:
        known.moments.append(moments)
        known.steps.append(step)
    return True


def _counts(term: LossTerm, flat: torch.Tensor) -> list[int] | None:
    """Hard targets per class, neighboring classes together where there are many."""
    if term.operation.startswith("binary"):
        ones = int((flat == 1).sum())
        zeros = int((flat == 0).sum())
        return [zeros, ones] if zeros + ones == len(flat) else None
    if flat.is_floating_point() or not term.classes:
        return None
    labels = as_array(flat.cpu())
    labels = labels[(labels >= 0) & (labels < term.classes)]
    width = -(-term.classes // BINS)
    size = -(-term.classes // width)
    counts: list[int] = np.bincount(labels // width, minlength=size).tolist()
    return counts


def _merged(a: Moments, b: Moments) -> Moments:
    """Number, mean and variance of two groups together."""
    count = a[0] + b[0]
    mean = (a[0] * a[1] + b[0] * b[1]) / count
    spread = a[0] * (a[2] + (a[1] - mean) ** 2) + b[0] * (b[2] + (b[1] - mean) ** 2)
    return count, mean, spread / count
