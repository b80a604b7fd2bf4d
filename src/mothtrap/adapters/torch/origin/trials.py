"""Repeat a step several times from the same point, in copies of the process.

A copy continues the script from the point of the fork, returns its result, and ends.
"""

from __future__ import annotations

from collections.abc import Callable

from mothtrap.adapters.torch.job import copies
from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.core import jsonable
from mothtrap.core.replays import ReplayResult
from mothtrap.tracing.snapshots.outcome import Outcome

TIMEOUT_S = 120.0
"""Maximum time of one trial in seconds; chosen by hand, for steps that take seconds."""
MAX_TRIALS = 400
"""Maximum number of trials of one replay; chosen by hand: enough to find a few rows among
thousands.
"""


class Trials:
    """Runs trials in copies of this process.

    Args:
        outcome: in a copy, set to the receiver of its result.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.count = 0

    @staticmethod
    def are_possible() -> bool:
        """Return whether a copy can repeat the step."""
        return not copies.why_impossible()

    def run(self, prepare: Callable[[], None]) -> ReplayResult | None:
        """Repeat the step in a copy, and wait for the result.

        Args:
            prepare: called in the copy.

        Returns:
            None if there was no result.

        Raises:
            GoOn: in the copy.
        """
        self.count += 1
        if self.count > MAX_TRIALS:
            return None
        pid, pipe = copies.copy_process()
        if pid == 0:
            self._outcome.pipe = pipe
            prepare()
            raise GoOn
        data, in_time = copies.result_of(pid, pipe, TIMEOUT_S)
        return jsonable.decode(data, ReplayResult) if data and in_time else None
