"""Facts about the exception that ended a script."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class ScriptFailed(Fact, frozen=True, kw_only=True, tag=True):
    """The exception of the framework that ended the script, in words.

    `kind` is `shape`, `dtype`, `device`, `type`, `index`, `label`, `graph`, `memory`, `data`,
    `replicas` (gradients that a data-parallel wrapper could not average), or `other` if only the
    place is known. `error` is its type and its first line, shortened.
    `sentence` describes the failed operation, its input, the expected input, and the origin of the
    input. `module` is the path of the module that failed, or in whose forward pass it happened.
    `inputs` are the inputs of the failed operation, and `batch` describes the origin of the data.
    `location` is the line of the user's own code that was running. `fixes` lists the most likely
    fix first.
    """

    kind: str
    error: str
    sentence: str
    module: str | None = None
    inputs: tuple[str, ...] = ()
    batch: str = ""
    location: str | None = None
    fixes: tuple[str, ...] = ()
