"""Agreement of all ranks of a job on a step before any of them applies it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

WAIT_S = 60.0
"""Longest time that a rank waits for the others, once. Ranks that average gradients reach the same
step much sooner; chosen by hand.
"""


class Agreement:
    """Agreement of all ranks on each step that is about to be applied.

    It has its own process group, created at the first step, which does not affect other groups. If
    the others do not respond within `WAIT_S`, or are at another step, this is reported, and from
    then on each rank decides alone. So a loop that differs between ranks is delayed only once.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._first = job.grouper.step
        self._group: Any = None
        # Kept, because the last reference to a reduced tensor must be dropped under the GIL.
        self._answer = torch.zeros(3, dtype=torch.int64)
        self._of: Any = None
        self._off = False

    @property
    def holds(self) -> bool:
        """Return whether all ranks make the same decision on a step."""
        return not self._off and not self._has_uneven_inputs()

    def worst(self, unsound: bool) -> bool:
        """Return whether the step is bad on any rank.

        The result of this rank if it decides alone.
        """
        if not _several() or not self.holds:
            return unsound
        try:
            worst, first, last = self._ask(unsound)
        except RuntimeError as err:  # raised by torch.distributed, also for timeouts
            self._end(f"they did not answer ({type(err).__name__}: {str(err)[:200]})")
            return unsound
        if first != last:
            self._end(f"they reached different steps ({first} to {last} since the start)")
            return unsound
        return bool(worst)

    def close(self) -> None:
        """Release the process group before the interpreter ends."""
        group, self._group = self._group, None
        self._off = True
        distributed = torch.distributed
        if group is not None and self._of is distributed.group.WORLD:
            distributed.destroy_process_group(group)

    def _end(self, why: str) -> None:
        self._off = True
        self._job.recorder.notes.blind(
            self._job.grouper.step,
            "what other ranks report about a step",
            f"{why}; from now on, each rank decides alone which steps to skip",
        )

    def _ask(self, unsound: bool) -> tuple[int, int, int]:
        """Return the worst verdict of all ranks, and their smallest and largest number of steps."""
        distributed = torch.distributed
        if self._of is not distributed.group.WORLD:
            self._of = distributed.group.WORLD
            self._group = distributed.new_group(backend="gloo", timeout=timedelta(seconds=WAIT_S))
        step = self._job.grouper.step - self._first
        self._answer.copy_(torch.tensor((unsound, -step, step)))
        distributed.all_reduce(self._answer, distributed.ReduceOp.MAX, group=self._group)
        worst, least, greatest = self._answer.tolist()
        return worst, -least, greatest

    def _has_uneven_inputs(self) -> bool:
        """Return whether ranks may run out of batches at different steps (`model.join()`)."""
        for root in self._job.book.roots:
            whole = root.module()
            if isinstance(whole, DistributedDataParallel) and whole._join_config.enable:
                return True
        return False


def _several() -> bool:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return bool(distributed.get_world_size() > 1)
