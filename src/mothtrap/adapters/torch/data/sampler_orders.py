"""Passes over the training data for which a `DistributedSampler` draws the same order again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, DistributedSampler

from mothtrap.core.facts.replicas import OrderRepeated

if TYPE_CHECKING:
    from mothtrap.adapters.torch.data.data_sources import Source
    from mothtrap.adapters.torch.job.job import Job

MAX_REPORTED = 16
"""Maximum number of facts about one loader."""


def order_began(job: Job, source: Source, loader: DataLoader[Any]) -> None:
    """Handle the start of a pass: compare its order with the order of the pass before.

    Passes between which nothing was trained count as one, such as a look at the first batch.
    """
    order = _order_of(loader)
    step = job.grouper.step
    if order is None or step == source.order_step:
        return
    source.order_step = step
    source.order_passes = source.order_passes + 1 if order == source.order else 1
    source.order = order
    if source.trained and 1 < source.order_passes <= MAX_REPORTED:
        job.recorder.notes.observe(
            OrderRepeated(
                step=step,
                loader=source.label,
                epoch=order[0],
                passes=source.order_passes,
                location=source.location,
            )
        )


def _order_of(loader: DataLoader[Any]) -> tuple[int, int] | None:
    """Return what determines the order of a pass, its epoch and seed; None for other samplers."""
    batches = loader.batch_sampler
    sampler: Any = loader.sampler if batches is None else getattr(batches, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        return None
    if type(sampler).__iter__ is not DistributedSampler.__iter__ or not sampler.shuffle:
        return None
    return int(sampler.epoch), int(sampler.seed)
