"""Replays requested by the page: one at a time, each in a separate process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from mothtrap.core.errors import ConfigError, ControlError
from mothtrap.core.masking import without_secrets

TIMEOUT_S = 900.0
MOST_KEPT = 50
SAID = 600
"""Characters of an error that are shown."""


class ReplayCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The step to replay."""

    step: int


class Replays:
    """Runs replays if the user of the server has allowed it, and stores their results.

    A replay runs the run's own script, so by default the page only shows the command.

    Args:
        allowed: `--allow-replay` was given.
    """

    def __init__(self, *, allowed: bool = False) -> None:
        self.allowed = allowed
        self._lock = threading.Lock()
        self._results: dict[tuple[Path, int], dict[str, Any]] = {}

    def result(self, run: Path, step: int) -> dict[str, Any] | None:
        """Return the result of a replay in the format of `mothtrap replay --format json`."""
        return self._results.get((run, step))

    def replay(self, run: Path, body: bytes) -> dict[str, Any]:
        """Replay a step of a run, and return the result.

        Raises:
            ControlError: it is not allowed, another replay is running, or it failed.
            ConfigError: the request cannot be read.
        """
        try:
            step = msgspec.json.decode(body, type=ReplayCommand).step
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            raise ConfigError(f"the request cannot be read: {err}") from err
        if not self.allowed:
            raise ControlError(
                "this server does not start replays, because they execute the run's script; copy "
                "the command, or start the server with `mothtrap ui --allow-replay`"
            )
        if not self._lock.acquire(blocking=False):
            raise ControlError("another replay is running; try again when it has ended")
        try:
            found = _replayed(run, step)
        finally:
            self._lock.release()
        self._results[run, step] = found
        while len(self._results) > MOST_KEPT:
            self._results.pop(next(iter(self._results)))
        return found


def _replayed(run: Path, step: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "mothtrap", "replay", str(run), "--step", str(step)]
    try:
        done = subprocess.run(
            [*command, "--format", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise ControlError(f"the replay took more than {TIMEOUT_S:.0f} s and was stopped") from err
    try:
        found = msgspec.json.decode(done.stdout, type=dict[str, Any])
    except msgspec.DecodeError as err:
        said = without_secrets(done.stderr.decode(errors="replace").strip())[-SAID:]
        raise ControlError(f"the replay failed: {said or 'it printed nothing'}") from err
    return found
