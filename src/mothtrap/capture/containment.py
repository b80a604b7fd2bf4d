"""Isolation of mothtrap's errors from the training: caught, reported once, and switched off."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from mothtrap.core.error_texts import in_one_line, traceback_of
from mothtrap.core.facts.captures import ToolError


class Containment:
    """Remembers which parts of mothtrap have failed in this process.

    Args:
        say: prints one line for the user.

    Attributes:
        failed: parts that must not be called anymore, and the reasons.
        left_by: the exception that left the `with` block of a watch, if any.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.failed: dict[str, ToolError] = {}
        self.left_by: BaseException | None = None

    def is_off(self, part: str) -> bool:
        """Return whether a part has failed and must not be called anymore."""
        return part in self.failed

    def report(self, part: str, error: BaseException, *, step: int = 0) -> ToolError | None:
        """Record the failure of a part, which switches it off; None if it was already reported."""
        if part in self.failed:
            return None
        failure = ToolError(
            step=step, part=part, error=in_one_line(error), traceback=traceback_of(error)
        )
        self.failed[part] = failure
        self._say(
            f"mothtrap: {part} failed and is switched off; training continues ({failure.error})"
        )
        return failure

    @property
    def ended_by(self) -> BaseException | None:
        """Return the exception that ended the training: it left the block, or was not caught."""
        # In an interactive session, a mistyped line does not end the job.
        uncaught = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
        return self.left_by or (uncaught if isinstance(uncaught, BaseException) else None)

    def say(self, line: str) -> None:
        """Print one line for the user."""
        self._say(line)

    @property
    def failures(self) -> tuple[ToolError, ...]:
        """All failures so far, oldest first."""
        return tuple(self.failed.values())


def say_on_stderr(line: str) -> None:
    """Print one line on stderr without breaking a visible tqdm bar."""
    tqdm = sys.modules.get("tqdm")
    try:
        if tqdm is not None and hasattr(tqdm, "tqdm"):
            with tqdm.tqdm.external_write_mode(file=sys.stderr):
                _write(line)
        else:
            _write(line)
    except (OSError, ValueError, AttributeError):
        return  # stderr is closed


def _write(line: str) -> None:
    stream, own = sys.stderr, sys.__stderr__
    if own is not None and stream is own:
        # Bypasses the buffer, so that a line that the script has started there is not split.
        os.write(own.fileno(), f"{line}\n".encode(own.encoding, "backslashreplace"))
    else:
        stream.write(line + "\n")
        stream.flush()
