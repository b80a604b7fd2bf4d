"""Result of a replay; writing it ends the process."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.replays import (
    RESULT_FILE,
    UNREACHED_FILE,
    ReplayPlan,
    ReplayResult,
    with_localization,
)
from mothtrap.store.replacing import replace


class Outcome:
    """Collects notes, and writes them with the result.

    Attributes:
        rank: rank of the result.
        pipe: file descriptor for the result, instead of the file; for trials.
        uncopied: the process cannot be copied, for trials.
    """

    def __init__(self, plan: ReplayPlan, rank: int) -> None:
        self._folder, self.rank = Path(plan.scratch), rank
        self._notes: dict[str, None] = {}
        self._began_s = time.monotonic()
        self._pid = os.getpid()
        self._narrowed: ReplayResult | None = None
        self.pipe: int | None = None
        self.uncopied = False

    def note(self, text: str) -> None:
        """Add a note to the result, once."""
        self._notes[text] = None

    def narrowed(self, found: ReplayResult) -> None:
        """Add the results of a trial of the same step: operation and rows."""
        self._narrowed = found

    def finish(self, result: ReplayResult) -> NoReturn:
        """Write the result and end the process; no further code of the script runs."""
        data = jsonable.encode(self._whole(result))
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
            sys.stderr.flush()
        if self.pipe is not None:
            with os.fdopen(self.pipe, "wb") as file:
                file.write(data)
        else:
            replace(self._folder / f"{self.rank}-{RESULT_FILE}", data)
        os._exit(0)

    def unreached(self, result: ReplayResult) -> None:
        """Record why the step was not reached; other processes of the job may reach it."""
        if os.getpid() == self._pid and self.pipe is None:
            path = self._folder / UNREACHED_FILE.format(pid=self._pid)
            replace(path, jsonable.encode(self._whole(result)))

    def _whole(self, result: ReplayResult) -> ReplayResult:
        notes = tuple(dict.fromkeys((*result.notes, *self._notes)))
        seconds = time.monotonic() - self._began_s
        whole = msgspec.structs.replace(
            result, rank=self.rank, notes=notes, seconds=seconds, uncopied=self.uncopied
        )
        found = self._narrowed
        if found is None:
            return whole
        notes = tuple(dict.fromkeys((*notes, *found.notes)))
        return msgspec.structs.replace(with_localization(whole, found), notes=notes)
