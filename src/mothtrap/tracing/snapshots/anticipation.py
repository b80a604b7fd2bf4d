"""Detect the start of a statement that is about to call a model.

Values that a statement reads before the call, such as the weight in `weight * loss_of(model(x),
y)`, cannot be replaced at the call. So the interpreter's line events are used.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import of_file

Expected = Callable[[], "str | None"]
"""Function that returns the location, `file:line`, of the next expected call; None if there is
none.
"""


class Anticipation:
    """Traces the lines of the files that contain expected calls.

    Args:
        expected: the next call.
        begins: called with the frame in which its statement begins.
    """

    def __init__(self, expected: Expected, begins: Callable[[FrameType], None]) -> None:
        self._expected, self._begins = expected, begins
        self._files: dict[str, str] = {}
        self.active = False

    def start(self) -> None:
        """Start tracing code that is running or called later."""
        if self.active or sys.gettrace() is not None:  # the tracer of a debugger or coverage tool
            return
        self.active = True
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self._concerns(frame):
                frame.f_trace = self._line
            frame = frame.f_back
        sys.settrace(self._called)

    def stop(self) -> None:
        """Stop tracing."""
        if self.active:
            self.active = False
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002
        return self._line if self._concerns(frame) else None

    def _concerns(self, frame: FrameType) -> bool:
        """Return whether the expected call is in the file of a frame's code."""
        place = self._expected()
        if place is None:
            return False
        filename = frame.f_code.co_filename
        known = self._files.get(filename)
        if known is None:
            known = self._files[filename] = frames.line_of(filename, 1).rpartition(":")[0]
        return known == place.rpartition(":")[0]

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002
        place = self._expected() if event == "line" else None
        if place is not None and self._concerns(frame):
            line = int(place.rpartition(":")[2])
            # Its lines need not run in order: the first may be the line of the assignment.
            if frame.f_lineno in statement_lines(frame.f_code.co_filename, line):
                self._begins(frame)
        return self._line


@functools.lru_cache(maxsize=64)
def statement_lines(filename: str, line: int) -> range:
    """Return the lines of the innermost statement around a line; for a block, of its header."""
    tree = of_file(filename)
    if tree is None:
        return range(line, line + 1)
    holding = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not holding:
        return range(line, line + 1)
    innermost = max(holding, key=lambda node: node.lineno)
    body = getattr(innermost, "body", None)
    last = body[0].lineno - 1 if body else innermost.end_lineno or line
    return range(innermost.lineno, max(last, line) + 1)
