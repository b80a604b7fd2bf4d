"""A worker's log on a disk that rejects writes for some time, and later has room again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mothtrap.core.records import StepRecord
from mothtrap.store.worker_log import WorkerLog

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Pause before a rejected append is retried, which doubles each time, and its maximum. Chosen by
hand.
"""
_HOPELESS = (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
"""Errors that waiting cannot fix: the folder was removed, or has another owner."""


class PatientLog:
    """Appends to a log, and retries failed writes until they succeed.

    Args:
        log: log of the worker.
        rest: waits for up to this many seconds; returns whether no time is left, so that the next
            attempt is the last.
        say: prints one line for the user.
    """

    def __init__(
        self, log: WorkerLog, rest: Callable[[float], bool], say: Callable[[str], None]
    ) -> None:
        self._log, self._rest, self._say = log, rest, say
        self._said: set[str] = set()
        self._refused = False

    def append(self, records: Sequence[StepRecord]) -> None:
        """Write records, retrying as long as necessary; see `WorkerLog.append`.

        Raises:
            OSError: no time is left, or retrying is pointless; none of the records was written.
        """
        pause_s, is_last = FIRST_PAUSE_S, False
        while not self._takes(records, is_last=is_last):
            is_last = self._rest(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if self._log.trouble is not None:
            self._report_unkept(self._log.trouble)

    def tend(self) -> None:
        """Seal and sync segments that are due, and report errors."""
        try:
            self._log.tend()
        except OSError as err:
            self._report_unkept(err)

    def close(self) -> None:
        """Seal all segments; raises OSError."""
        self._log.close()

    def _takes(self, records: Sequence[StepRecord], *, is_last: bool) -> bool:
        try:
            self._log.append(records)
        except _HOPELESS:
            raise
        except OSError as err:
            if is_last:
                raise
            self._refused = True
            self._report(
                "refused",
                f"mothtrap: captured data cannot be written ({err}); training continues, and "
                "mothtrap tries again until there is room; steps that do not fit in memory in "
                "the meantime are dropped and counted",
            )
            return False
        if self._refused:
            self._refused = False
            self._report("taken", "mothtrap: captured data can be written again")
        return True

    def _report_unkept(self, err: OSError) -> None:
        self._report(
            "unkept",
            f"mothtrap: captured data was written, but not safely to the disk ({err}); training "
            "continues; a power failure may lose the data",
        )

    def _report(self, what: str, line: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(line)
