"""Base of handles that add facts to the steps of an underlying framework."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.adapters import Job, MadeStep
from mothtrap.tracing.handle import BaseHandle


class ObservingHandle(BaseHandle):
    """Base handle that is notified when a step closes; see `core.adapters.StepObserver`."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        job.observe(self)
        super().__init__(job, targets)

    def closing(self, closed: MadeStep) -> None:
        """Add data to a step that is finished but not recorded yet."""

    def closed(self, closed: MadeStep) -> None:
        """Begin the next step."""

    def interrupted(self) -> None:
        """Close a finished step because another framework begins a step."""
