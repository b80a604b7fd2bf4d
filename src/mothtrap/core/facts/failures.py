"""Facts about the exception that ended a script."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class ScriptFailed(Fact, frozen=True, kw_only=True, tag=True):
    """The exception of the framework that ended the script, in words.

    `kind`: `shape`, `dtype`, `device`, `type`, `index`, `label`, `graph`, `memory`, `data`, or
    `other` where only the place is known. `error` is its type and its first line, shortened.
    `sentence` says what failed, what it was given, what it needs, and who made that. `module`
    is the path of the module that failed, or in whose forward it happened. `inputs` were given
    to what failed, `batch` says where the data came from. `location` is the line of the user's
    own code that was running. `fixes` go from the likeliest on.
    """

    kind: str
    error: str
    sentence: str
    module: str | None = None
    inputs: tuple[str, ...] = ()
    batch: str = ""
    location: str | None = None
    fixes: tuple[str, ...] = ()
