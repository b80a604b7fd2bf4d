"""Call a function of the user's, in this process or in the job at a step boundary."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mothtrap.core.actions import Action, Job, settings_of
from mothtrap.core.errors import ActionError, ConfigError
from mothtrap.core.events import Event
from mothtrap.core.functions import function_named

KEYS = ("function", "in_job")


@dataclass(frozen=True, slots=True)
class Function:
    """Calls `module:function` with the event; with `in_job`, on each worker's training thread."""

    name: str
    in_job: bool
    label: str = "function"
    target: str = ""

    @property
    def is_message(self) -> bool:
        """Return whether this process calls the function, and retries until it succeeds."""
        return not self.in_job

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Call the function, or request the call in the job."""
        del delivery
        if self.in_job:
            if not job.is_running:
                return ""
            job.call(self.name, event)
            return f"asked the job to call {self.name}"
        try:
            function_named(self.name)(event)
        except Exception as err:  # whatever a function of the user's raises
            raise ActionError(f"{self.name} raised {type(err).__name__}") from err
        return f"called {self.name}"


def make(settings: object, where: str) -> Sequence[Action]:
    """Create the action; the module must exist, and is imported on first use.

    Args:
        settings: `module:function`, or a table with `function` and `in_job`.
        where: source of the settings.
    """
    values = settings_of(settings, "function", "function", where)
    if unknown := sorted(values.keys() - set(KEYS)):
        raise ConfigError(f"{where}: function has no {unknown[0]!r}; known keys: {', '.join(KEYS)}")
    name, in_job = values.get("function"), values.get("in_job", False)
    if not isinstance(in_job, bool):
        raise ConfigError(f"{where}: function.in_job must be true or false")
    module, colon, attribute = str(name).partition(":")
    if not isinstance(name, str) or not colon or not attribute.isidentifier():
        raise ConfigError(f'{where}: function must be a string such as "my_module:on_event"')
    if not in_job and not _is_found(module):
        raise ConfigError(f"{where}: there is no module {module!r} for function, in {Path.cwd()}")
    return (Function(name, in_job),)


def _is_found(module: str) -> bool:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # where `python -m` finds modules, too
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
