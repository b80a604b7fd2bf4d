"""The base of handles that add to the steps of the framework below them."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.adapters import Job, MadeStep
from mothtrap.tracing.handle import BaseHandle


class ObservingHandle(BaseHandle):
    """A handle that hears of each step when it closes; see `core.adapters.StepObserver`."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        job.observe(self)
        super().__init__(job, targets)

    def closing(self, closed: MadeStep) -> None:
        """Add to a step that is over and not recorded yet."""

    def closed(self, closed: MadeStep) -> None:
        """Begin the next step."""

    def interrupted(self) -> None:
        """Close a step that waits for the next event: another framework steps."""
