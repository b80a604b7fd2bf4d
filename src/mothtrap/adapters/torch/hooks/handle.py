"""Handle of the attached adapter, for the session."""

from __future__ import annotations

from mothtrap.adapters.torch.comparing_runs.surroundings import Surroundings
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job.tensor_refs import allow_swaps
from mothtrap.core.adapters import Given, SnapshotTaker
from mothtrap.core.options import EVERY


class TorchHandle:
    """Base of the handles for a whole process and for single objects.

    Args:
        tracer: receives the events of hooks.
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
        """Attach the user's values to the latest step, or create a step."""
        self.tracer.step_given(given)

    def surroundings(self) -> Surroundings:
        """Read the settings that affect the numbers."""
        return Surroundings(self.tracer.random_start)

    def stop(self, reason: str) -> bool:  # noqa: ARG002
        """Return False, because the loop belongs to the user."""
        return False

    def abandon(self) -> None:
        """Stop observing."""
        self.tracer.job.live = False
