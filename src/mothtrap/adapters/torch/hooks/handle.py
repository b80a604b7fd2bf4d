"""The adapter at work, as the session sees it."""

from __future__ import annotations

from mothtrap.adapters.torch.comparing_runs.surroundings import Surroundings
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job.tensor_refs import allow_swaps
from mothtrap.core.adapters import Given, SnapshotTaker
from mothtrap.core.options import EVERY


class TorchHandle:
    """Base of the handles for a whole process and for single objects.

    Args:
        tracer: takes what hooks see.
    """

    honors = EVERY

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        allow_swaps()

    @property
    def snapshots(self) -> SnapshotTaker:
        """Return the snapshot taker."""
        return self.tracer.snapshots

    def step(self, given: Given) -> None:
        """Attach what the user passes to the step just made, or make one."""
        self.tracer.step_given(given)

    def surroundings(self) -> Surroundings:
        """Read what the numbers depend on."""
        return Surroundings(self.tracer.random_start)

    def stop(self, reason: str) -> bool:  # noqa: ARG002
        """Return False: the loop is the user's own."""
        return False

    def abandon(self) -> None:
        """See nothing from here on."""
        self.tracer.job.live = False
