"""Find ends of episodes that a function receives but never reads, or uses inverted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.tracing.describe import episode_ends

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

LOOK_AT = 3
"""Number of the backward pass at which the source is read."""


class EpisodeEndObserver:
    """Reads the source of the running functions once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._backwards = 0

    def loss_began(self, _: BackwardRoot) -> None:
        """Read the source if due."""
        self._backwards += 1
        if self._backwards != LOOK_AT:
            return
        found = episode_ends.of_running_files(self._job.grouper.step, _share)
        if found is not None:
            self._job.recorder.notes.observe(found)


def _share(ends: Any) -> float | None:
    """Return the share of ones in a tensor of zeros and ones; None for other values."""
    if not isinstance(ends, torch.Tensor) or not is_plain(ends) or not ends.numel():
        return None
    with torch.no_grad():
        values = ends.detach().float()
        if not bool(((values == 0) | (values == 1)).all()):
            return None
        return float(values.mean())
