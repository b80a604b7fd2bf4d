"""Optional parts of an adapter: checks, and the state of a waiting process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from mothtrap.core.facts.stalls import CollectiveCall, InputState


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckParts:
    """Functions of an adapter that checks use; None = not supported.

    Attributes:
        run: runs the checks in the script of this process (see `session.checked_process`).
        trial: runs one trial of a check in a script that was restarted for it.
        tables: starts to report the tables to which models are fitted, for data checks; None = the
            models of the framework are trained step by step.
        step: returns the step that `mothtrap.check` checks (see `session.explicit_check`).
        data_set: returns the dataset of a loader passed to `mothtrap.check`, for a role, and with
            the batches that the loader has returned.
    """

    run: Callable[..., None] | None = None
    trial: Callable[..., None] | None = None
    tables: Callable[[Callable[[Any], None]], None] | None = None
    step: Callable[..., Any] | None = None
    data_set: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StallParts:
    """Functions of an adapter that explain why a process makes no step; None = unsupported.

    Attributes:
        collective: returns the last collective operation that this process called, given the
            innermost frame of its training thread.
        reading: returns the file and record that the input pipelines of this process work on;
            called while no step is made.
    """

    collective: Callable[[FrameType], CollectiveCall | None] | None = None
    reading: Callable[[], InputState] | None = None


NO_CHECKS: Final = CheckParts()
NO_STALLS: Final = StallParts()
