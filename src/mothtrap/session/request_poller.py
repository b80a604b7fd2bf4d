"""Search for requests to this job during training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from mothtrap.core.control_requests import DetailsRequest, Request
from mothtrap.core.errors import MothtrapError
from mothtrap.store import control_inbox as store

POLL_S = 1.0
"""Interval between reads of the folder, each of which takes one system call."""


class RequestPoller:
    """A thread that passes requests to the end of the step in progress.

    Args:
        attempt: folder of the attempt; requests to other attempts are ignored.
        ask: called with each request, on the thread.
        refuse: called with the id of an invalid request, and the reason.
        poll_s: seconds between two checks.
    """

    def __init__(
        self,
        attempt: Path,
        ask: Callable[[Request], None],
        refuse: Callable[[str, str], None],
        *,
        poll_s: float = POLL_S,
    ) -> None:
        self._number = int(attempt.name)
        self._inbox = store.Inbox(attempt.parent)
        self._ask, self._refuse, self._poll_s = ask, refuse, poll_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mothtrap-requests", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop polling."""
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Pass on requests that arrived since the last call."""
        for path in self._inbox.take():
            try:
                request = store.read(path)
            except (MothtrapError, OSError) as err:
                self._refuse(path.stem, str(err))
                continue
            if isinstance(request, DetailsRequest):
                continue  # requests for the launcher
            if request.attempt == self._number:
                self._ask(request)

    def _run(self) -> None:
        while not self._ended.wait(self._poll_s):
            self.look()
