"""Start a program, with the event as JSON on its standard input."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from mothtrap.core import jsonable
from mothtrap.core.actions import Action, Job, settings_of
from mothtrap.core.errors import ActionError, ConfigError, DeliveryError
from mothtrap.core.events import Event

TIMEOUT_S = 60.0
"""Time that a command has by default; chosen by hand."""
KEYS = ("command", "timeout_s")


@dataclass(frozen=True, slots=True)
class Command:
    """Starts a program without a shell; exit code 75 (EX_TEMPFAIL) means "try again later"."""

    words: tuple[str, ...] = field(repr=False)
    timeout_s: float
    label: str = "command"
    target: str = ""
    is_message: bool = True

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Run the program until it ends, and discard its output."""
        environment = {
            **os.environ,
            "MOTHTRAP_EVENT": event.kind,
            "MOTHTRAP_DELIVERY": delivery,
            "MOTHTRAP_DISABLE": "1",  # a Python program is not a part of the job
        }
        try:
            done = subprocess.run(
                self.words,
                input=jsonable.shown(event),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ActionError(f"it did not end within {self.timeout_s:g} s") from None
        except OSError as err:
            raise ActionError(f"it cannot be started: {err.strerror}") from None
        if done.returncode == os.EX_TEMPFAIL:
            raise DeliveryError("it ended with 75: try again later")
        if done.returncode:
            raise ActionError(f"it ended with {done.returncode}")
        del job
        return "the command ended with 0"


def make(settings: object, where: str) -> Sequence[Action]:
    """Return the action.

    Args:
        settings: the words of the command, or a table with `command` and `timeout_s`.
        where: source of the settings.
    """
    values = settings_of(settings, "command", "command", where)
    if unknown := sorted(values.keys() - set(KEYS)):
        raise ConfigError(f"{where}: command has no {unknown[0]!r}; known keys: {', '.join(KEYS)}")
    words, timeout_s = values.get("command"), values.get("timeout_s", TIMEOUT_S)
    listed = words if isinstance(words, list | tuple) else ()
    if not listed or not all(isinstance(word, str) for word in listed):
        raise ConfigError(f'{where}: command must be a list of words such as ["sh", "page.sh"]')
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
        raise ConfigError(f"{where}: command.timeout_s must be a number of seconds above 0")
    return (Command(tuple(map(str, listed)), float(timeout_s)),)
