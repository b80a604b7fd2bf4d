"""Open Python's debugger in a replay: before a line, or where an exception was raised."""

from __future__ import annotations

import bdb
import pdb
import sys
import traceback
from types import FrameType, TracebackType

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.working_folder import absolute
from mothtrap.tracing.source import frames

HELP = (
    "mothtrap: p VARIABLE prints a variable, u and d go up and down, n runs the next line, "
    "c or q continues"
)


class _Debugger(pdb.Pdb):
    """Debugger that stops before a line, and describes it."""

    def wait_for(self, frame: FrameType, filename: str, line: int) -> None:
        """Stop when the line is reached; immediately if it is already running.

        Args:
            frame: innermost frame of the user's code.
            filename: file of the line.
            line: number of the line.
        """
        self.reset()
        self.set_break(filename, line)
        running = False
        outer: FrameType | None = frame
        while outer is not None:
            outer.f_trace = self.trace_dispatch
            self.botframe = outer
            running = running or _is_at(outer, filename, line)
            outer = outer.f_back
        if running:
            self.interaction(frame, None)
        else:
            self._set_stopinfo(self.botframe, None, -1)  # type: ignore[attr-defined]
        sys.settrace(self.trace_dispatch)

    def do_quit(self, arg: str) -> bool | None:
        """Leave the debugger; the step continues to its end, where it is compared."""
        self.clear_all_breaks()
        return self.do_continue(arg)

    do_q = do_exit = do_EOF = do_quit


class _PostMortem(pdb.Pdb):
    """Post-mortem debugger that starts some frames above the innermost frame."""

    def __init__(self, above: int) -> None:
        super().__init__(nosigint=True)
        self._above = above

    def setup(self, f: FrameType | None, tb: TracebackType | None) -> None:
        """Select the initial frame."""
        super().setup(f, tb)
        if self._above:
            self.curindex = max(0, self.curindex - self._above)
            self.curframe = self.stack[self.curindex][0]
            self.curframe_locals = self.curframe.f_locals
            self._above = 0


def stop_before(place: str) -> None:
    """Open the debugger when a line is reached.

    Args:
        place: `file:line`, with a path that is absolute or relative to the working directory.
    """
    filename, _, line = place.rpartition(":")
    frame = frames.user_frame()
    if frame is not None and line.isdigit():
        say_on_stderr(f"mothtrap: the debugger opens before {place}\n{HELP}")
        _Debugger(nosigint=True).wait_for(frame, absolute(filename), int(line))


def look_at(error: BaseException) -> None:
    """Open the debugger at the innermost line of user code in an exception's traceback."""
    if isinstance(error, bdb.BdbQuit) or error.__traceback__ is None:
        return
    say_on_stderr(f"mothtrap: the debugger opens where it was raised\n{HELP}")
    debugger = _PostMortem(_frames_within(error.__traceback__))
    debugger.reset()
    debugger.interaction(None, error.__traceback__)


def _frames_within(trace: TracebackType) -> int:
    """Return the number of library frames inside the innermost user frame."""
    passed = [frame for frame, _ in traceback.walk_tb(trace)]
    users = [place for place, frame in enumerate(passed) if frames.is_users(frame)]
    return len(passed) - 1 - users[-1] if users else 0


def _is_at(frame: FrameType, filename: str, line: int) -> bool:
    return frame.f_lineno == line and absolute(frame.f_code.co_filename) == filename
