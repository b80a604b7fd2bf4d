"""The targets of each loss call site over the batches, to detect an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mothtrap.adapters.torch.data.loaders import LoaderObserver
from mothtrap.adapters.torch.data.nonfinite_inputs import spots_in
from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import LossTerm
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.describe.target_order import BINS, MAX_STEPS, TargetsInOrder

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

EVERY_STEP, THEN_EVERY = 256, 32
"""Backward passes of a call site whose targets are read: the first ones, then one in N. On an
accelerator, where each reading waits for the device, one in `ON_DEVICE_EVERY` of the first ones.
"""
ON_DEVICE_EVERY = 8
SITES = 16
TARGETS = 1 << 16
"""Maximum number of counted targets of a batch."""


@dataclass(slots=True)
class _Site:
    targets: TargetsInOrder
    backwards: int = 0


class TargetOrderObserver:
    """Records the targets of each loss at the start of its backward pass."""

    def __init__(self, job: Job, loaders: LoaderObserver) -> None:
        self._job, self._loaders = job, loaders
        self._sites: dict[str, _Site] = {}

    def loss_began(self, loss: BackwardRoot) -> None:
        """Read the targets of a loss if they are due."""
        site, location, root, checkpointed = loss.site, loss.place, loss.root, loss.recomputes
        known = self._sites.get(site)
        if known is None:
            if len(self._sites) >= SITES:
                return
            known = self._sites[site] = _Site(TargetsInOrder(site, location))
        targets = known.targets
        number, known.backwards = known.backwards, known.backwards + 1
        every = 1 if root.device.type == "cpu" else ON_DEVICE_EVERY
        if (
            number % (every if number < EVERY_STEP else THEN_EVERY)
            or len(targets.steps) > MAX_STEPS
        ):
            return
        step = self._job.grouper.step
        if targets.is_due(step):
            targets.location = location
            self._report(targets)
        for term in graph.loss_terms(root.grad_fn) if root.grad_fn is not None else []:
            target = loss_values.target(term, checkpointed=checkpointed)
            if target is None or not is_plain(target):
                continue
            if term.operation != "elementwise":
                counts = _counts(term, target.detach().reshape(-1)[:TARGETS])
                found = counts is not None and targets.add_counts(step, counts)
            else:
                rows = term.prediction_shape[0] if term.prediction_shape else 0
                found = target.numel() == rows and _add_values(targets, step, target)
            if found:
                return
        self._add_loaded(targets, step)

    def nonfinite(self, location: str | None, root: torch.Tensor, checkpointed: bool) -> bool:
        """Inspect the targets of a non-finite loss if all model outputs are finite.

        Returns:
            Whether non-finite values were found in the data, and reported.
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

    def _add_loaded(self, targets: TargetsInOrder, step: int) -> None:
        """Read the targets from the loader's batch, because a hand-written loss stores none."""
        targets.loaded = True
        batch = self._loaders.latest
        alive = [ref() for _, ref in batch.tensors] if batch is not None and batch.trains else []
        last = alive[-1] if len(alive) > 1 else None
        if last is None or not last.ndim or last.numel() != last.shape[0]:
            return
        if last.is_floating_point():
            _add_values(targets, step, last)
        elif last.dtype is torch.int64:
            labels = as_array(last.reshape(-1).cpu())
            if labels.min(initial=0) >= 0 and labels.max(initial=0) < BINS:
                targets.add_counts(step, np.bincount(labels).tolist())

    def _report(self, targets: TargetsInOrder) -> None:
        batch = self._loaders.latest
        source = batch.source if batch is not None and batch.trains else None
        self._job.recorder.notes.observe(
            targets.fact(
                self._job.grouper.step,
                loader=source.label if source else None,
                sampler=source.plan.sampler if source else None,
            )
        )


def _add_values(targets: TargetsInOrder, step: int, target: torch.Tensor) -> bool:
    if not target.is_floating_point() or not target.numel():
        return False
    values = target.detach().reshape(-1)[:TARGETS].double().cpu()
    moments = float(len(values)), float(values.mean()), float(values.var(correction=0))
    return targets.add_values(step, moments)


def _counts(term: LossTerm, flat: torch.Tensor) -> list[int] | None:
    """Return hard targets per class, with neighboring classes combined if there are many."""
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
