"""Does a step several times from one point: in copies of the process, each of which ends.

A copy continues with the script from where it was made, and hands its result back.
"""

from __future__ import annotations

from collections.abc import Callable

from mothtrap.adapters.torch.job import copies
from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.core import jsonable
from mothtrap.core.replays import ReplayResult
from mothtrap.tracing.snapshots.outcome import Outcome

TIMEOUT_S = 120.0
"""Longest time of one trial; chosen by hand, for steps that take seconds."""
MAX_TRIALS = 400
"""Trials of one replay; chosen by hand: enough to find a few rows among thousands."""


class Trials:
    """Runs trials in copies of this process.

    Args:
        outcome: in a copy, set to where its result goes.
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
