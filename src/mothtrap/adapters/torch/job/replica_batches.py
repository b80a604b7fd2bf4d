"""Inputs of the replicas of a wrapped model, so that workers can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from mothtrap.adapters.torch.job.nested import parts_of, tensors_in
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

FORWARDS = 16
"""Maximum number of inspected forwards of a step."""
NO_DATA = (int, float, complex, str, bytes, torch.dtype, torch.device, type(None))


class ReplicaBatchObserver:
    """Called with each training forward pass of a wrapper in the sampled steps.

    Nothing is reported for a step that was not completely observed: with data in opaque objects,
    created by the model itself, or averaged over more than one group of workers.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._digests: list[int] = []
        self._groups: set[tuple[int, int]] = set()
        self._location: str | None = None
        self._unseen = False
        self._in_parts = False

    def called(self, wrapper: Any, given: Sequence[object]) -> None:
        """Handle the start of a wrapper's own forward pass.

        Args:
            wrapper: averages gradients over a group of workers.
            given: its arguments.
        """
        self._take(dist.get_process_group_ranks(wrapper.process_group), given, in_parts=False)

    def called_in_parts(self, ranks: Sequence[int], given: Sequence[object]) -> None:
        """Record the inputs of a model that is split over workers.

        Args:
            ranks: the workers.
            given: arguments of the model.
        """
        self._take(ranks, given, in_parts=True)

    def _take(self, ranks: Sequence[int], given: Sequence[object], *, in_parts: bool) -> None:
        if self._unseen or len(self._digests) >= FORWARDS:
            return
        data = _data_in(given)
        self._in_parts = in_parts
        self._groups.add((min(ranks), len(ranks)))
        if not data or len(self._groups) > 1:
            self._unseen = True
            return
        if not self._digests:
            self._location = frames.user_location()
        self._digests.append(arithmetic.fingerprint(data))

    def close(self, step: int) -> None:
        """Report the batches of the completed step."""
        digests, self._digests = self._digests, []
        groups, self._groups = self._groups, set()
        unseen, self._unseen = self._unseen, False
        if digests and not unseen:
            lowest, size = groups.pop()
            self._job.recorder.notes.observe(
                ReplicaBatch(
                    step=step,
                    lowest=lowest,
                    size=size,
                    digest=" ".join(f"{digest:016x}" for digest in digests),
                    location=self._location,
                    in_parts=self._in_parts,
                )
            )


def rows_in(given: Sequence[object]) -> int:
    """Return the length of the first axis of the first tensor among some arguments, or 0."""
    tensors = (tensor for value in given for tensor in tensors_in(value))
    return next((len(tensor) for tensor in tensors if is_plain(tensor) and tensor.ndim), 0)


def _data_in(given: Sequence[object]) -> list[torch.Tensor]:
    """Return the tensors that may be a batch; empty if data may be hidden."""
    if not all(_is_open(value) for value in given):
        return []
    tensors = [tensor for value in given for tensor in tensors_in(value)]
    if not all(is_plain(tensor) for tensor in tensors):
        return []
    return [t for t in tensors if t.ndim and t.numel() > 1 and not t.requires_grad]


def _is_open(value: object, levels: int = 4) -> bool:
    """Return whether a value is a tensor, contains no data, or consists of such values."""
    if isinstance(value, (torch.Tensor, *NO_DATA)):
        return True
    parts = [part for _, part in parts_of(value)]
    known = isinstance(value, dict | list | tuple) or bool(parts)
    return known and levels > 0 and all(_is_open(part, levels - 1) for part in parts)
